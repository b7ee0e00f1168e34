# SPDX-License-Identifier: Apache-2.0
"""Evaluation of nodes whose inputs are all constant.

Exporters write shapes as computations (``Shape``, ``Gather``, ``Div``, ``Concat``), and weights as
computations of others. What such nodes compute is a constant for those that read it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .node_emitter import SMALL

if TYPE_CHECKING:
    import onnx

_ELEMENTWISE = {
    "Abs", "Add", "And", "Ceil", "Clip", "Cos", "Equal", "Erf", "Exp", "Floor", "Greater",
    "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul",
    "Neg", "Not", "Or", "Reciprocal", "Relu", "Round", "Sign", "Sin", "Sqrt", "Sub", "Sum", "Tanh",
    "Where", "Xor",
}  # fmt: skip
"""Operators whose result is as large as their inputs broadcast."""

_OTHERS = {
    "Compress", "Concat", "CumSum", "Gather", "GatherElements", "GatherND", "ReduceL1", "ReduceL2",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
    "ScatterElements", "ScatterND", "Slice", "Split", "Trilu",
}  # fmt: skip
"""Operators whose result is not larger than their inputs."""

Arrays = Sequence["np.ndarray | None"]


def fold(node: onnx.NodeProto, opset: int, arrays: Arrays) -> list[np.ndarray] | None:
    """Return what a node of ONNX's own domain computes from constants.

    Parameters
    ----------
    node : onnx.NodeProto
    opset : int
    arrays : sequence of array
        The inputs; None for one that is left out.

    Returns
    -------
    list of array, or None
        None for an operator that is left to run, or whose result is large.
    """
    given = [array for array in arrays if array is not None]
    own = _OWN.get(node.op_type)
    if own is not None and len(given) == 2 and _is_small(given):
        result = own(*given)
        return None if result is None else [result]
    known = node.op_type in _OTHERS or (node.op_type in _ELEMENTWISE and _is_small(given))
    if not known or not given or any(array.dtype.kind == "V" for array in given):
        return None
    return _evaluated(node, opset, arrays)


def _is_small(arrays: Sequence[np.ndarray]) -> bool:
    """Return whether arrays are not much larger when they are broadcast."""
    try:
        count = math.prod(np.broadcast_shapes(*(array.shape for array in arrays)))
    except ValueError:
        return False
    return count <= max(SMALL, *(array.size for array in arrays))


def _evaluated(node: onnx.NodeProto, opset: int, arrays: Arrays) -> list[np.ndarray] | None:
    """Return what ONNX's reference computes; None if it cannot."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    names = [f"x{i}" if array is not None else "" for i, array in enumerate(arrays)]
    outputs = [f"y{i}" if name else "" for i, name in enumerate(node.output)]
    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    alone.ClearField("input")
    alone.ClearField("output")
    alone.input.extend(names)
    alone.output.extend(outputs)
    values = [onnx.ValueInfoProto(name=name) for name in names if name]
    results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    graph = onnx.GraphProto(name="g", node=[alone], input=values, output=results)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    given = {name: array for name, array in zip(names, arrays, strict=True) if name}
    try:
        with np.errstate(all="ignore"):  # the logarithm of 0 is what it is when a model runs
            found = ReferenceEvaluator(model).run(None, given)
    except Exception:  # of various types; what is wrong shows when the node is converted
        return None
    return [np.asarray(array) for array in found]


def _divide(left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Divide; quotients of integers are rounded towards zero."""
    if left.dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            return np.asarray(np.divide(left, right), left.dtype)
    if (right == 0).any():
        return None
    quotient, rest = np.divmod(left, right)
    return np.asarray(quotient + ((rest != 0) & ((left < 0) != (right < 0))), left.dtype)


def _power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Raise to a power in the type of the base; integers in float64."""
    wide = "float64" if base.dtype.kind in "iu" else base.dtype
    with np.errstate(all="ignore"):
        return np.power(base.astype(wide), exponent).astype(base.dtype)


_OWN: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray | None]] = {
    "Div": _divide,
    "Pow": _power,
}
"""Where ONNX's reference is wrong."""
