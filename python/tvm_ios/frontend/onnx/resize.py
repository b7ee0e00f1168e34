# SPDX-License-Identifier: Apache-2.0
"""Variants of ``Resize`` that TVM's importer computes wrongly, by matrices along each axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .nodes import Nodes, attributes

if TYPE_CHECKING:
    import onnx


def resize(nodes: Nodes, node: onnx.NodeProto) -> bool:
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
