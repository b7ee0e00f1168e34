# SPDX-License-Identifier: Apache-2.0
"""Operators that TVM's importer does not know, or converts wrongly, in terms of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...support.errors import ModelError
from ...support.text import last_line
from .nodes import Nodes, attributes, described
from .operators import INTERNAL, STANDARD, known_operators, nodes_of, opset_of
from .recurrent import gru, lstm, rnn
from .resize import resize

if TYPE_CHECKING:
    import onnx

Rule = Callable[[Nodes, "onnx.NodeProto"], bool]
"""Adds what computes the outputs of a node; False if the node stays."""

_MISREAD = {"Attention", "RMSNormalization"}
"""Operators defined by a function of others that TVM's importer mistakes or fails on."""


def decompose(path: Path, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without operators that have simpler equivalents.

    ONNX defines many operators by a function of others, which is inlined. The others are replaced
    by rules of this package.

    Parameters
    ----------
    path : Path
        The file, for messages.
    model : onnx.ModelProto
        A model with static input shapes; it may be changed.

    Raises
    ------
    ModelError
        If a variant of an operator cannot be decomposed.
    """
    if any(node.domain == INTERNAL for node in nodes_of(model.graph)):
        raise ModelError(f"{path} has operators of the domain {INTERNAL}, which is not its own.")
    model = _inlined(path, model)
    if not any(node.op_type in _RULES for node in nodes_of(model.graph)):
        return model
    model = _inferred(model)
    nodes = Nodes(model.graph, opset_of(model))
    for node in model.graph.node:
        rule = _RULES.get(node.op_type) if node.domain in STANDARD else None
        if rule is None or not rule(nodes, node):
            nodes.keep(node)
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(nodes.nodes)
    model.graph.initializer.extend(nodes.constants)
    model.graph.value_info.extend(nodes.values)
    if nodes.values:
        model.opset_import.add(domain=INTERNAL, version=1)
    return model


def _inlined(path: Path, model: onnx.ModelProto) -> onnx.ModelProto:
    """Inline operators that ONNX defines by a function of others."""
    import onnx.inliner

    names = sorted(set(_defined(model)))
    if not names:
        return model
    ids = [("", name) for name in names]
    try:
        inferred = _inferred(model)  # functions may depend on types
        return onnx.inliner.inline_selected_functions(inferred, ids, inline_schema_functions=True)
    except Exception as error:  # the inliner raises various types
        raise ModelError(
            f"{', '.join(names)} of {path} cannot be replaced by simpler operators "
            f"({last_line(error)}); export the model without it."
        ) from error


def _defined(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the operators to inline."""
    known = known_operators()
    for node in nodes_of(model.graph):
        if node.domain not in STANDARD or not _has_function(node.op_type):
            continue
        several = node.op_type == "LayerNormalization" and len(node.output) > 1
        if several or node.op_type in _MISREAD or node.op_type not in known:
            yield node.op_type


def _has_function(name: str) -> bool:
    import onnx

    if not onnx.defs.has(name):
        return False
    schema = onnx.defs.get_schema(name)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the shapes that can be inferred; as it is if it is damaged."""
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # what is wrong shows when the model is converted
        return model


def _batch_normalization(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Normalise by the batch's own mean and variance in training mode.

    PyTorch standardises the weights of normaliser-free networks by it.
    """
    given, (data, scale, bias, *running) = attributes(node), node.input
    shape = nodes.shape(data)
    if not given.get("training_mode", 0):
        return False
    if shape is None:
        raise ModelError(
            f"{described(node)} is in training mode; export the model in inference mode."
        )
    others = [axis for axis in range(len(shape)) if axis != 1]

    def mean_of(value: str) -> str:
        inputs, axes = nodes.listed("ReduceMean", "axes", *others)
        return nodes.add("ReduceMean", value, *inputs, keepdims=1, **axes)

    mean = mean_of(data)
    centred = nodes.add("Sub", data, mean)
    variance = mean_of(nodes.add("Mul", centred, centred))
    epsilon = nodes.like(data, given.get("epsilon", 1e-5))
    deviation = nodes.add("Sqrt", nodes.add("Add", variance, epsilon))
    factor, offset = (nodes.unsqueezed(value, *others) for value in (scale, bias))
    scaled = nodes.add("Mul", nodes.add("Div", centred, deviation), factor)
    nodes.add("Add", scaled, offset, output=node.output[0], name=node.name)
    momentum = given.get("momentum", 0.9)
    for old, new, output in zip(running, (mean, variance), node.output[1:], strict=False):
        if output:
            kept = nodes.add("Mul", old, nodes.like(old, momentum))
            flat = nodes.add("Reshape", new, nodes.int64s(shape[1]))
            added = nodes.add("Mul", flat, nodes.like(old, 1 - momentum))
            nodes.add("Add", kept, added, output=output)
    return True


def _lp_normalization(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Divide by a norm; where that is 0, so are all elements."""
    given, data = attributes(node), node.input[0]
    kind = f"ReduceL{given.get('p', 2)}"
    inputs, axes = nodes.listed(kind, "axes", given.get("axis", -1))
    norm = nodes.add(kind, data, *inputs, keepdims=1, **axes)
    zero, one = nodes.like(data, 0.0), nodes.like(data, 1.0)
    divisor = nodes.add("Where", nodes.add("Equal", norm, zero), one, norm)
    nodes.add("Div", data, divisor, output=node.output[0], name=node.name)
    return True


def _is_inf(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Look at one sign, or none, where not both are asked for."""
    given, data = attributes(node), node.input[0]
    positive, negative = given.get("detect_positive", 1), given.get("detect_negative", 1)
    if positive and negative:
        return False
    zero = nodes.like(data, 0.0)
    if positive or negative:
        wanted = nodes.add("Greater" if positive else "Less", data, zero)
    else:
        wanted = nodes.add("Not", nodes.add("Equal", zero, zero))
    infinite = nodes.add("IsInf", data)
    nodes.add("And", infinite, wanted, output=node.output[0], name=node.name)
    return True


def _conv_transpose(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Turn the shape of a result into the padding that leads to it."""
    given = attributes(node)
    wanted = given.get("output_shape")
    shape, kernel = nodes.shape(node.input[0]), nodes.shape(node.input[1])
    if wanted is None or shape is None or kernel is None:
        return False
    rank = len(shape) - 2
    ones, zeros = [1] * rank, [0] * rank
    total = [
        stride * (size - 1) + added + (extent - 1) * dilation + 1 - out
        for size, stride, added, extent, dilation, out in zip(
            shape[2:],
            given.get("strides", ones),
            given.get("output_padding", zeros),
            kernel[2:],
            given.get("dilations", ones),
            list(wanted)[-rank:],
            strict=True,
        )
    ]
    halves = [pad // 2 for pad in total]
    rest = [pad - half for pad, half in zip(total, halves, strict=True)]
    if min(total) < 0:  # a larger result than the windows reach: zeros are added at the end
        given["output_padding"] = [
            added - min(pad, 0)
            for added, pad in zip(given.get("output_padding", zeros), total, strict=True)
        ]
        halves, rest = [max(half, 0) for half in halves], [max(pad, 0) for pad in rest]
    upper = given.pop("auto_pad", b"NOTSET") == b"SAME_UPPER"
    given["pads"] = [*halves, *rest] if upper else [*rest, *halves]
    del given["output_shape"]
    nodes.add("ConvTranspose", *node.input, output=node.output[0], name=node.name, **given)
    return True


def _dropout(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Pass the data on, and a mask that drops nothing."""
    data, training = node.input[0], node.input[2] if len(node.input) > 2 else ""
    switch, shape = nodes.array(training), nodes.shape(data)
    if training and (switch is None or switch.any()):
        raise ModelError(
            f"{described(node)} is in training mode; export the model in inference mode."
        )
    masks = [name for name in node.output[1:] if name]
    if masks and shape is None:
        return False
    nodes.add("Identity", data, output=node.output[0])
    for mask in masks:
        nodes.add("Identity", nodes.constant(np.ones(shape or (), bool)), output=mask)
    return True


def _space_to_depth(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Order the depth by channel, then row, then column, which TVM's importer does not."""
    given, shape = attributes(node), nodes.shape(node.input[0])
    if given.get("mode", b"DCR") != b"CRD" or shape is None:
        return False
    (n, c, h, w), b = shape, given["blocksize"]
    split = nodes.add("Reshape", node.input[0], nodes.int64s(n, c, h // b, b, w // b, b))
    moved = nodes.add("Transpose", split, perm=[0, 1, 3, 5, 2, 4])
    final = nodes.int64s(n, c * b * b, h // b, w // b)
    nodes.add("Reshape", moved, final, output=node.output[0], name=node.name)
    return True


def _pow(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Give the exponent the type of the base; powers of integers are computed in float64.

    TVM's code has powers of floating-point numbers of one type.
    """
    import onnx

    base, exponent = (nodes.dtype(name) for name in node.input)
    code = onnx.helper.np_dtype_to_tensor_dtype(base)
    if np.issubdtype(base, np.integer):
        wide = onnx.TensorProto.DOUBLE
        power = nodes.add("Pow", *(nodes.add("Cast", name, to=wide) for name in node.input))
        nodes.add("Cast", power, output=node.output[0], name=node.name, to=code)
        return True
    if base == exponent:
        return False
    cast = nodes.add("Cast", node.input[1], to=code)
    nodes.add("Pow", node.input[0], cast, output=node.output[0], name=node.name)
    return True


_RULES: dict[str, Rule] = {
    "BatchNormalization": _batch_normalization,
    "ConvTranspose": _conv_transpose,
    "Dropout": _dropout,
    "GRU": gru,
    "IsInf": _is_inf,
    "LSTM": lstm,
    "LpNormalization": _lp_normalization,
    "Pow": _pow,
    "RNN": rnn,
    "Resize": resize,
    "SpaceToDepth": _space_to_depth,
}
