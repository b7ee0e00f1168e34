# SPDX-License-Identifier: Apache-2.0
"""Networks as ONNX models, which ONNX Runtime evaluates operator by operator, unoptimised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvm_ios.frontend.models import load_model

from .draw import Refused
from .network import HALVES, Network, Node, Tensor, is_float
from .older import in_opset
from .writing import written_otherwise

OPSETS = tuple(range(7, onnx.defs.onnx_opset_version()))  # the newest one may not be finished
BFLOAT16 = 13  # the operator set in which most operators take it


class OnnxEvaluator:
    """What ONNX Runtime makes of single operators."""

    front = "onnx"

    def __init__(self, opset: int) -> None:
        self.opset = opset

    def form(self, node: Node, constants: dict[str, np.ndarray]) -> Node:
        return in_opset(node, self.opset, constants)

    def evaluate(
        self, node: Node, types: dict[str, Tensor], values: dict[str, np.ndarray]
    ) -> list[tuple[Tensor, np.ndarray | None]]:
        arrays = evaluate(node, self.opset, [values[n] for n in node.inputs if n])
        return [(Tensor(a.shape, str(a.dtype)), a) for a in arrays]


def evaluate(node: Node, opset: int, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of one operator by ONNX Runtime, in the types of its operands.

    Raises
    ------
    Refused
        When ONNX Runtime does not take it.
    """
    if not any(map(_is_half, (*operands, *node.attributes.values()))):
        return _evaluate(node, opset, operands)
    # ONNX Runtime's own kernels know few operators in float16, and none in bfloat16.
    types = _types_of_results(node, opset, operands)
    attributes = {name: _single(value) for name, value in node.attributes.items()}
    results = _evaluate(replace(node, attributes=attributes), opset, list(map(_single, operands)))
    with np.errstate(over="ignore"):  # what is too large is refused where it is drawn
        return [array.astype(dtype) for array, dtype in zip(results, types, strict=True)]


def _is_half(value: Any) -> bool:
    """Return whether an operand is of 16 bits, or an attribute asks for such a type."""
    return str(getattr(value, "dtype", value)) in HALVES


def _single(value: Any) -> Any:
    if not _is_half(value):
        return value
    return value.astype("float32") if isinstance(value, np.ndarray) else "float32"


def _types_of_results(node: Node, opset: int, operands: Sequence[np.ndarray]) -> list[np.dtype]:
    """Return the types that ONNX's definition of an operator gives its results."""
    model = _bare_model(node, opset, operands)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except Exception as error:  # onnx raises types of its own
        raise Refused(f"{node}: {error}") from error
    types = [value.type.tensor_type.elem_type for value in inferred.graph.output]
    if TensorProto.UNDEFINED in types:  # as of an operator that this set does not have
        raise Refused(f"{node} has no known type")
    return list(map(helper.tensor_dtype_to_np_dtype, types))


def _bare_model(node: Node, opset: int, operands: Sequence[np.ndarray]) -> onnx.ModelProto:
    names = [name for name in node.inputs if name]
    given = dict(zip(names, operands, strict=True))
    inputs = [_info(name, Tensor(a.shape, str(a.dtype))) for name, a in given.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs]
    return _model(_protos(node), inputs, outputs, [], opset)


def _evaluate(node: Node, opset: int, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    names = [name for name in node.inputs if name]
    given = dict(zip(names, operands, strict=True))
    try:
        return run_model(_bare_model(node, opset, operands), given)
    except Exception as error:  # ONNX Runtime raises types of its own
        raise Refused(f"{node}: {error}") from error


def run_model(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime computes of a model."""
    return [np.asarray(array) for array in _session(model).run(None, inputs)]


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def reference(network: Network, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All values of a network, operator by operator."""
    values = {"": np.zeros(0), **network.constants, **inputs}
    for node in network.nodes:
        operands = [values[name] for name in node.inputs if name]
        values.update(zip(node.outputs, evaluate(node, network.opset, operands), strict=True))
    return values


def double_reference(
    network: Network,
    inputs: dict[str, np.ndarray],
    nudge: Callable[[np.ndarray], np.ndarray] = lambda array: array,
) -> dict[str, np.ndarray]:
    """All values of a network in double precision, as far as operators are known in it.

    Those that single precision rounds go through ``nudge``.
    """
    single = reference(network, inputs)
    values = {name: _doubled(array) for name, array in {**network.constants, **inputs}.items()}
    for node in network.nodes:
        if not any(is_float(single[name]) for name in node.outputs):
            results = [single[name] for name in node.outputs]
        elif node.op == "Cast":
            results = [_doubled(values[node.inputs[0]]).astype("float64")]
        else:
            operands = values
            if node.op in _NORMALISING:  # a mean rounds, though all of what it is of may be equal
                operands = {**values, node.inputs[0]: nudge(values[node.inputs[0]])}
            made = _evaluate_doubled(node, network.opset, operands)
            named = zip(node.outputs, made, strict=True)
            results = [np.where(a == _doubled(single[name]), a, nudge(a)) for name, a in named]
        values.update(zip(node.outputs, results, strict=True))
    return values


_SINGLE = (
    "Resize", "Upsample", "DequantizeLinear", "DynamicQuantizeLinear", "ConstantOfShape",
    "LRN",
)  # fmt: skip
"""Of which some operands, or results, are in single precision always; others hardly round.

The sums that ONNX's reference takes for LRN are of as many channels as there are images.
"""


_NORMALISING = (
    "LayerNormalization", "GroupNormalization", "InstanceNormalization",
    "MeanVarianceNormalization",
)  # fmt: skip


def _doubled(array: np.ndarray) -> np.ndarray:
    return array.astype("float64") if is_float(array) else array


def _evaluate_doubled(node: Node, opset: int, values: dict[str, np.ndarray]) -> list[np.ndarray]:
    """By ONNX Runtime, or where it knows the operator in single precision only, by ONNX's own
    reference; in single precision where neither has another, or ONNX's has a mistake."""
    given = {name: values[name] for name in node.inputs if name}
    if node.op in _SINGLE:
        return _evaluate_singly(node, opset, list(given.values()))
    try:
        return evaluate(node, opset, [values[name] for name in node.inputs if name])
    except Refused:
        inputs = [_info(name, Tensor(a.shape, str(a.dtype))) for name, a in given.items()]
        outputs = [_info(name, Tensor((), "float64")) for name in node.outputs]
        model = _model(_protos(node), inputs, outputs, [], opset)
    singles = _evaluate_singly(node, opset, list(given.values()))
    try:
        doubles = ReferenceEvaluator(model).run(None, given)
    except Exception:  # it does not know every operator
        return singles
    return doubles if all(map(_is_near, doubles, singles)) else singles


def _is_near(double: np.ndarray, single: np.ndarray) -> bool:
    """Return whether two results may be of one operator."""
    if double.shape != single.shape:
        return False
    largest = np.abs(single[np.isfinite(single)]).max(initial=0.0)
    return bool(np.allclose(double, single, rtol=0.01, atol=0.01 * largest, equal_nan=True))


def _evaluate_singly(node: Node, opset: int, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    operands = [a.astype("float32") if a.dtype == "float64" else a for a in operands]
    return [_doubled(array) for array in evaluate(node, opset, operands)]


def to_model(network: Network) -> onnx.ModelProto:
    """The network as a model; an output that is repeated goes through an Identity."""
    nodes = [proto for node in network.nodes for proto in _protos(node)]
    outputs: list[onnx.ValueInfoProto] = []
    seen: set[str] = set()
    for i, name in enumerate(network.outputs):
        shown = name if name not in seen else f"again{i}"
        if shown != name:
            nodes.append(helper.make_node("Identity", [name], [shown]))
        seen.add(name)
        outputs.append(_info(shown, network.types[name]))
    inputs = [_info(name, tensor) for name, tensor in network.inputs.items()]
    constants = [numpy_helper.from_array(a, name) for name, a in network.constants.items()]
    return _model(nodes, inputs, outputs, constants, network.opset)


def module(network: Network, folder: Path, random: np.random.Generator) -> tvm.IRModule:
    """The network as it is read from a file, in which it is written in one of several ways."""
    path = folder / "model.onnx"
    onnx.save(written_otherwise(to_model(network), random), path)
    return load_model(str(path))


def _protos(node: Node) -> list[onnx.NodeProto]:
    """A node; one whose operator is a sum of two has a sequence between them."""
    attributes = dict(node.attributes)
    if "to" in attributes:
        attributes["to"] = helper.np_dtype_to_tensor_dtype(np.dtype(attributes["to"]))
    if isinstance(attributes.get("value"), np.ndarray):
        attributes["value"] = numpy_helper.from_array(attributes["value"])
    first, _, second = node.op.partition("+")
    if not second:
        return [helper.make_node(first, node.inputs, node.outputs, **attributes)]
    between = f"{node.outputs[0]}_sequence"
    return [
        helper.make_node(first, node.inputs, [between]),
        helper.make_node(second, [between], node.outputs, **attributes),
    ]


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto],
    opset: int,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "random", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", opset)]
    version = helper.find_min_ir_version_for(opsets)
    return helper.make_model(graph, opset_imports=opsets, ir_version=version)


def _info(name: str, tensor: Tensor) -> onnx.ValueInfoProto:
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    assert dtype != TensorProto.UNDEFINED, "tensors have types that ONNX knows"
    return helper.make_tensor_value_info(name, dtype, tensor.shape)
