# SPDX-License-Identifier: Apache-2.0
"""Operators that TVM's importer does not know, or converts wrongly, in terms of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...support.errors import ModelError
from ...support.text import last_line
from .nodes import Nodes, attributes
from .operators import STANDARD, known_operators, nodes_of
from .recurrent import gru, lstm, rnn

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
        A model with static input shapes.

    Raises
    ------
    ModelError
        If a variant of an operator cannot be decomposed.
    """
    import onnx

    model = _inlined(path, model)
    if not any(node.op_type in _RULES for node in nodes_of(model.graph)):
        return model
    inferred = _inferred(model)
    nodes = Nodes(inferred.graph)
    for node in inferred.graph.node:
        rule = _RULES.get(node.op_type) if node.domain in STANDARD else None
        if rule is None or not rule(nodes, node):
            nodes.keep(node)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:], result.graph.value_info[:]
    result.graph.node.extend(nodes.nodes)
    result.graph.initializer.extend(nodes.constants)
    return result


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


def _lp_normalization(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Divide by a norm; where that is 0, so are all elements."""
    given = attributes(node)
    norm = nodes.add(
        f"ReduceL{given.get('p', 2)}",
        node.input[0],
        nodes.int64s(given.get("axis", -1)),
        keepdims=1,
    )
    tiny = nodes.like(node.input[0], 1e-30)
    nodes.add("Div", node.input[0], nodes.add("Max", norm, tiny), output=node.output[0])
    return True


def _is_inf(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Look at one sign, where only one is asked for."""
    given = attributes(node)
    positive, negative = given.get("detect_positive", 1), given.get("detect_negative", 1)
    if positive and negative:
        return False
    data, zero = node.input[0], nodes.like(node.input[0], 0.0)
    either = nodes.add("IsInf", data)
    signed = nodes.add("Greater" if positive else "Less", data, zero)
    if not positive and not negative:
        signed = nodes.add("Not", nodes.add("Equal", data, data))  # only NaN, which is finite
    nodes.add("And", either, signed, output=node.output[0])
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
    training = node.input[2] if len(node.input) > 2 else ""
    array = nodes.array(training)
    if training and (array is None or array.any()):
        raise ModelError(
            f"Dropout {node.name!r} is in training mode; export the model in inference mode."
        )
    nodes.add("Identity", node.input[0], output=node.output[0])
    shape = nodes.shape(node.input[0])
    if len(node.output) > 1 and node.output[1]:
        if shape is None:
            return False
        nodes.add("Identity", nodes.constant(np.ones(shape, bool)), output=node.output[1])
    return True


def _resize(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Interpolate along each axis by a product with a matrix, where TVM's importer is wrong.

    It ignores ``antialias`` and ``exclude_outside``, derives the scales from the sizes, which are
    rounded, and does not know ``axes``.
    """
    given = attributes(node)
    shape = nodes.shape(node.input[0])
    if shape is None or given.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        return False
    special = any(given.get(name) for name in ("antialias", "exclude_outside", "axes"))
    unknown = given.get("coordinate_transformation_mode") == b"half_pixel_symmetric"
    if not (special or unknown or _is_inexact(nodes, node, shape)):
        return False
    matrices = _interpolations(nodes, node, shape)
    if matrices is None:
        return False
    value = node.input[0]
    for axis, matrix in matrices.items():
        if ((matrix == 0) | (matrix == 1)).all() and (matrix.sum(0) == 1).all():
            value = nodes.add("Gather", value, nodes.int64s(*matrix.argmax(0)), axis=axis)
            continue
        order = [a for a in range(len(shape)) if a != axis] + [axis]
        back = [order.index(a) for a in range(len(shape))]
        value = nodes.add("Transpose", value, perm=order)
        value = nodes.add("MatMul", value, nodes.constant(matrix.astype(nodes.dtype(value))))
        value = nodes.add("Transpose", value, perm=back)
    nodes.add("Identity", value, output=node.output[0], name=node.name)
    return True


def _is_inexact(nodes: Nodes, node: onnx.NodeProto, shape: list[int]) -> bool:
    """Return whether a scale is not the ratio of the sizes, or decides on ties of neighbours."""
    scales, sizes = (nodes.array(node.input[i]) if len(node.input) > i else None for i in (2, 3))
    nearest = attributes(node).get("mode", b"nearest") == b"nearest"
    if sizes is not None and nearest:
        return any(int(new) % old for old, new in zip(shape, sizes, strict=False))
    if scales is None or not scales.size:
        return False
    products = [old * float(scale) for old, scale in zip(shape, scales, strict=False)]
    whole = all(float(scale).is_integer() for scale in scales)
    return any(size % 1 for size in products) or (nearest and not whole)


def _interpolations(
    nodes: Nodes, node: onnx.NodeProto, shape: list[int]
) -> dict[int, np.ndarray] | None:
    """Return the matrix [in, out] of each axis that is resized, by ONNX's reference.

    An axis alone resizes the unit vectors; None if the sizes are not known.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    given = attributes(node)
    axes = [axis % len(shape) for axis in given.pop("axes", range(len(shape)))]
    lists = [nodes.array(name) for name in [*node.input, "", ""][1:4]]
    if len(node.input) > 3 and node.input[3] and lists[2] is None:
        return None
    if lists[1] is None and lists[2] is None:
        return None
    matrices = {}
    for i, axis in enumerate(axes):
        inputs: dict[str, np.ndarray] = {"x": np.eye(shape[axis], dtype="float32")}
        names = ["x"]
        for name, values in zip(("roi", "scales", "sizes"), lists, strict=True):
            if values is None or not values.size:
                names.append("")
                continue
            names.append(name)
            picked = values[[i, i + len(axes)]] if name == "roi" else values[[i]]
            inputs[name] = picked
        one = onnx.helper.make_node("Resize", names, ["y"], axes=[1], **given)
        (matrix,) = ReferenceEvaluator(one).run(None, inputs)
        if matrix.shape[1] != shape[axis] or not np.array_equal(matrix, inputs["x"]):
            matrices[axis] = matrix
    return matrices


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
    """Compute powers of integers in float64; TVM's code has them of floating-point numbers only."""
    import onnx

    kinds = [nodes.dtype(name) for name in node.input]
    if np.issubdtype(kinds[0], np.floating) and kinds[0] == kinds[1]:
        return False
    wide = onnx.TensorProto.DOUBLE
    base, exponent = (nodes.add("Cast", name, to=wide) for name in node.input)
    power = nodes.add("Pow", base, exponent)
    code = onnx.helper.np_dtype_to_tensor_dtype(kinds[0])
    nodes.add("Cast", power, output=node.output[0], name=node.name, to=code)
    return True


_RULES: dict[str, Rule] = {
    "ConvTranspose": _conv_transpose,
    "Dropout": _dropout,
    "GRU": gru,
    "IsInf": _is_inf,
    "LSTM": lstm,
    "LpNormalization": _lp_normalization,
    "Pow": _pow,
    "RNN": rnn,
    "Resize": _resize,
    "SpaceToDepth": _space_to_depth,
}
