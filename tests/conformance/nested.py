# SPDX-License-Identifier: Apache-2.0
"""ONNX's tests on sequences and optionals, with the tensors in them as inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper


def is_nested(model: onnx.ModelProto) -> bool:
    """Return whether an input or output of a model is no tensor."""
    values = (*model.graph.input, *model.graph.output)
    return not all(value.type.HasField("tensor_type") for value in values)


def opened(
    model: onnx.ModelProto, given: Sequence[Any], wanted: Sequence[Any]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Make tensors of the inputs and outputs of a model.

    Parameters
    ----------
    model : onnx.ModelProto
        Is changed: it builds its sequences and optionals, and takes its results apart.
    given, wanted : sequence
        Its inputs and outputs: arrays, lists of arrays, and None.

    Returns
    -------
    list of array
        The new inputs.
    list of array
        The right outputs.
    """
    graph = model.graph
    inputs, outputs = list(graph.input), list(graph.output)
    graph.ClearField("input")
    graph.ClearField("output")
    before: list[onnx.NodeProto] = []
    taken, returned = [], []
    for value, content in zip(inputs, given, strict=True):
        parts = list(_parts(value, content))
        taken += [array for _, array in parts]
        graph.input.extend(info for info, _ in parts)
        before += _built(value, [info.name for info, _ in parts])
    for value, content in zip(outputs, wanted, strict=True):
        parts = list(_parts(value, content))
        returned += [array for _, array in parts]
        graph.output.extend(info for info, _ in parts)
        graph.node.extend(_taken_apart(value, [info.name for info, _ in parts]))
    nodes = [*before, *graph.node]
    graph.ClearField("node")
    graph.node.extend(nodes)
    return taken, returned


def _parts(
    value: onnx.ValueInfoProto, content: Any
) -> Iterator[tuple[onnx.ValueInfoProto, np.ndarray]]:
    """Yield the tensors that a value holds."""
    if value.type.HasField("tensor_type"):
        yield value, content
        return
    arrays = content if isinstance(content, list) else [content]
    for place, array in enumerate(array for array in arrays if array is not None):
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        info = helper.make_tensor_value_info(f"{value.name}_{place}", code, array.shape)
        yield info, array


def _built(value: onnx.ValueInfoProto, parts: Sequence[str]) -> Iterator[onnx.NodeProto]:
    kind = value.type.WhichOneof("value")
    if kind == "tensor_type":
        return
    if kind == "sequence_type":
        operator = "SequenceConstruct" if parts else "SequenceEmpty"
        yield helper.make_node(operator, parts, [value.name])
        return
    inner = value.type.optional_type.elem_type
    if inner.HasField("sequence_type") and parts:
        yield helper.make_node("SequenceConstruct", parts, [f"{value.name}_all"])
        parts = [f"{value.name}_all"]
    yield helper.make_node("Optional", parts, [value.name], type=None if parts else inner)


def _taken_apart(value: onnx.ValueInfoProto, parts: Sequence[str]) -> Iterator[onnx.NodeProto]:
    kind, held = value.type.WhichOneof("value"), value.name
    if kind == "tensor_type":
        return
    if kind == "optional_type":
        single = value.type.optional_type.elem_type.HasField("tensor_type")
        held = parts[0] if single else f"{value.name}_all"
        yield helper.make_node("OptionalGetElement", [value.name], [held])
        if single:
            return
    for place, part in enumerate(parts):
        number = helper.make_tensor(f"{part}_place", onnx.TensorProto.INT64, [], [place])
        yield helper.make_node("Constant", [], [f"{part}_place"], value=number)
        yield helper.make_node("SequenceAt", [held, f"{part}_place"], [part])
