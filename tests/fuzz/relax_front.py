# SPDX-License-Identifier: Apache-2.0
"""Networks as Relax functions, which TVM's own lowering evaluates, nothing being scheduled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import tvm
from tvm import relax

from .draw import Refused
from .execute import run_unscheduled
from .network import Network, Node, Tensor

_OF_TUPLES = frozenset({"concat", "stack"})
"""Operators whose operands are a tuple."""


class RelaxEvaluator:
    """The types of Relax's operators; their values are known of whole networks only."""

    front, opset = "relax", 0

    def evaluate(
        self, node: Node, types: dict[str, Tensor], values: dict[str, np.ndarray]
    ) -> list[tuple[Tensor, np.ndarray | None]]:
        known = {}
        for name in node.inputs:
            tensor = types[name]
            constant = name.startswith("c")
            known[name] = _constant(values[name]) if constant else _variable(name, tensor)
        try:
            ty = relax.BlockBuilder().normalize(_call(node, known)).ty
        except Exception as error:  # whatever TVM trips over
            raise Refused(f"{node}: {error}") from error
        fields = ty.fields if isinstance(ty, relax.TupleType) else [ty]
        tensors = [_tensor(field) for field in fields]
        if len(tensors) != len(node.outputs):
            raise Refused(f"{node} has {len(tensors)} results")
        return [(tensor, None) for tensor in tensors]


def module(network: Network, _folder: Path) -> tvm.IRModule:
    """The network as a function ``main``."""
    return _build(network, network.outputs, lambda dtype: dtype)


def reference(network: Network, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All values of a network."""
    return _evaluate(network, inputs, lambda dtype: dtype)


def double_reference(
    network: Network,
    inputs: dict[str, np.ndarray],
    _nudge: Callable[[np.ndarray], np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """All values of a network in double precision; between its operators nothing is nudged."""
    return _evaluate(network, inputs, _doubled)


def _doubled(dtype: str) -> str:
    return "float64" if dtype == "float32" else dtype


def _evaluate(
    network: Network, inputs: dict[str, np.ndarray], dtype_of: Callable[[str], str]
) -> dict[str, np.ndarray]:
    made = [name for node in network.nodes for name in node.outputs]
    mod = _build(network, made, dtype_of)
    given = [inputs[n].astype(dtype_of(t.dtype)) for n, t in network.inputs.items()]
    results = run_unscheduled(mod, given)
    constants = {n: a.astype(dtype_of(str(a.dtype))) for n, a in network.constants.items()}
    return {**constants, **dict(zip(network.inputs, given, strict=True)),
            **dict(zip(made, results, strict=True))}  # fmt: skip


def _build(
    network: Network, outputs: Sequence[str], dtype_of: Callable[[str], str]
) -> tvm.IRModule:
    block = relax.BlockBuilder()
    values: dict[str, relax.Expr] = {
        name: _variable(name, replace(tensor, dtype=dtype_of(tensor.dtype)))
        for name, tensor in network.inputs.items()
    }
    parameters = list(values.values())
    for name, array in network.constants.items():
        values[name] = _constant(array.astype(dtype_of(str(array.dtype))))
    with block.function("main", parameters):
        with block.dataflow():
            for node in network.nodes:
                result = block.emit(_call(_typed(node, dtype_of), values))
                if isinstance(result.ty, relax.TupleType):
                    parts = range(len(node.outputs))
                    results = [block.emit(relax.TupleGetItem(result, i)) for i in parts]
                else:
                    results = [result]
                values.update(zip(node.outputs, results, strict=True))
            shown = [values[name] for name in outputs]
            result = block.emit_output(shown[0] if len(shown) == 1 else relax.Tuple(shown))
        block.emit_func_output(result)
    return block.get()


def _typed(node: Node, dtype_of: Callable[[str], str]) -> Node:
    """The node with its attributes that name a type."""
    named = {k: dtype_of(v) for k, v in node.attributes.items() if k == "dtype"}
    return replace(node, attributes={**node.attributes, **named})


def _call(node: Node, values: dict[str, relax.Expr]) -> relax.Expr:
    function = reduce(getattr, node.op.split("."), relax.op)
    operands = [values[name] for name in node.inputs]
    if node.op in _OF_TUPLES:
        return function(relax.Tuple(operands), **node.attributes)
    return function(*operands, **node.attributes)


def _variable(name: str, tensor: Tensor) -> relax.Var:
    return relax.Var(name, relax.TensorType(tensor.shape, tensor.dtype))


def _constant(array: np.ndarray) -> relax.Expr:
    return relax.const(array, str(array.dtype))


def _tensor(ty: relax.Type) -> Tensor:
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        raise Refused(f"{ty} is no tensor of known shape")
    return Tensor(tuple(int(n) for n in ty.shape.values), str(ty.dtype))
