# SPDX-License-Identifier: Apache-2.0
"""The same ONNX model, written otherwise: as exporters write constants, branches and functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from .network import Node
from .older import in_opset

_DOMAIN = "tests"
_OPTIONAL_INPUTS = 4  # the version of the format before which initialisers are inputs, too
_DEPRECATED = ("GroupNormalization",)  # in sets 18 to 20; what is written in them is read
_FUNCTIONS = 8  # that which has functions


def written_otherwise(model: onnx.ModelProto, random: np.random.Generator) -> onnx.ModelProto:
    """Return a model that computes the same; its last nodes may be inside of another one."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    wrap = _WAYS[random.integers(len(_WAYS))]
    nodes = list(result.graph.node)
    first = int(random.integers(len(nodes)))
    made = {name for node in nodes[first:] for name in node.output}
    outputs = [value for value in result.graph.output if value.name in made]
    if wrap is not None and outputs:
        del result.graph.node[first:]
        wrap(result, nodes[first:], outputs, random)
    _constants_as_nodes(result.graph, random)
    if result.ir_version < _OPTIONAL_INPUTS:
        result.graph.input.extend(map(_info, result.graph.initializer))
    if not any(node.op_type in _DEPRECATED for node in model.graph.node):
        onnx.checker.check_model(result)
    return result


def _constants_as_nodes(graph: onnx.GraphProto, random: np.random.Generator) -> None:
    """Make constants of some initialisers, or of all, or of none."""
    share = random.choice([0.0, 0.5, 1.0])
    chosen = [tensor for tensor in graph.initializer if random.random() < share]
    kept = [tensor for tensor in graph.initializer if tensor not in chosen]
    nodes = [helper.make_node("Constant", [], [t.name], value=t) for t in chosen]
    nodes += list(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)


def _info(tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _branch(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    random: np.random.Generator,
) -> None:
    """Put nodes into both branches of an If on a constant."""
    chosen = helper.make_tensor("", TensorProto.BOOL, [], [bool(random.random() < 0.5)])
    branches = {f"{name}_branch": _graph(name, nodes, outputs) for name in ("then", "else")}
    names = [value.name for value in outputs]
    model.graph.node.append(helper.make_node("Constant", [], ["condition"], value=chosen))
    model.graph.node.append(helper.make_node("If", ["condition"], names, **branches))


def _loop(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    _: np.random.Generator,
) -> None:
    """Put nodes into a loop of one step, whose results are stacked.

    It has a state, without which there were no loops before operator set 11.
    """
    inner, shown = _renamed(nodes, outputs, "step")
    inner.append(helper.make_node("Identity", ["going"], ["goes"]))
    inner.append(helper.make_node("Identity", ["kept"], ["keeps"]))
    inputs = [
        helper.make_tensor_value_info("number", TensorProto.INT64, []),
        helper.make_tensor_value_info("going", TensorProto.BOOL, []),
        helper.make_tensor_value_info("kept", TensorProto.INT64, [1]),
    ]
    goes = helper.make_tensor_value_info("goes", TensorProto.BOOL, [])
    keeps = helper.make_tensor_value_info("keeps", TensorProto.INT64, [1])
    body = helper.make_graph(inner, "body", inputs, [goes, keeps, *shown])
    one = helper.make_tensor("", TensorProto.INT64, [], [1])
    first = helper.make_tensor("", TensorProto.INT64, [1], [0])
    stacked = [f"{value.name}_stacked" for value in outputs]
    model.graph.node.extend([
        helper.make_node("Constant", [], ["steps"], value=one),
        helper.make_node("Constant", [], ["front"], value=first),
        helper.make_node("Loop", ["steps", "", "front"], ["last", *stacked], body=body),
    ])  # fmt: skip
    for name, value in zip(stacked, outputs, strict=True):
        node = Node("Squeeze", (name, "front"), (value.name,))
        node = in_opset(node, model.opset_import[0].version, {"front": np.array([0])})
        made = helper.make_node(node.op, node.inputs, node.outputs, **node.attributes)
        model.graph.node.append(made)


def _function(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    _: np.random.Generator,
) -> None:
    """Make nodes a function of the model's own."""
    made = {name for node in nodes for name in node.output}
    read = dict.fromkeys(name for node in nodes for name in node.input)
    free = [name for name in read if name and name not in made]
    results = [value.name for value in outputs]
    opsets = list(model.opset_import)
    model.functions.append(
        helper.make_function(_DOMAIN, "Part", free, results, list(nodes), opsets)
    )
    model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    model.ir_version = max(model.ir_version, _FUNCTIONS)
    model.graph.node.append(helper.make_node("Part", free, results, domain=_DOMAIN))


_WAYS: tuple[Callable[..., None] | None, ...] = (None, None, None, _branch, _loop, _function)


def _graph(
    name: str, nodes: Sequence[onnx.NodeProto], outputs: Sequence[onnx.ValueInfoProto]
) -> onnx.GraphProto:
    inner, shown = _renamed(nodes, outputs, name)
    return helper.make_graph(inner, name, [], shown)


def _renamed(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[onnx.ValueInfoProto], suffix: str
) -> tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto]]:
    """Return copies of nodes and of outputs, whose results have names of their own."""
    made = {name for node in nodes for name in node.output if name}

    def new(name: str) -> str:
        return f"{name}_{suffix}" if name in made else name

    copies = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = map(new, node.input)
        copy.output[:] = map(new, node.output)
        copies.append(copy)
    shown = []
    for value in outputs:
        info = onnx.ValueInfoProto()
        info.CopyFrom(value)
        info.name = new(value.name)
        shown.append(info)
    return copies, shown
