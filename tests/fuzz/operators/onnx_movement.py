# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that move, repeat, join and pick elements."""

from __future__ import annotations

import math

import numpy as np

from ..draw import Draw, Refused
from .table import ONNX

DTYPES = ("float32", "float32", "float32", "float32", "int64", "int32", "bool", "float64", "uint8")
"""What can be moved."""


def _movable(d: Draw, least: int = 1) -> str:
    return d.operand(range(least, 5), DTYPES)


def _axis(d: Draw, x: str) -> int:
    rank = len(d.dims(x))
    return d.integer(-rank, rank - 1)


def _factors(d: Draw, size: int) -> list[int]:
    """Numbers whose product is ``size``."""
    shape = []
    for _ in range(d.integer(0, 3)):
        factor = d.pick([f for f in range(1, size + 1) if size % f == 0])
        shape.append(factor)
        size //= factor
    shape.insert(d.integer(0, len(shape)), size)
    return shape


@ONNX.operator("Reshape", 2.0)
def reshape(d: Draw) -> None:
    x = _movable(d)
    size = d.types[x].size
    if not size:
        raise Refused
    shape = _factors(d, size)
    if d.chance(0.4):
        shape[d.integer(0, len(shape) - 1)] = -1
    d.add("Reshape", [x, d.constant(shape, "int64")], exact=True)


@ONNX.operator("Flatten", 0.6)
def flatten(d: Draw) -> None:
    x = _movable(d)
    d.add("Flatten", [x], exact=True, axis=d.integer(0, len(d.dims(x))))


@ONNX.operator("Transpose", 2.0)
def transpose(d: Draw) -> None:
    x = _movable(d, 2)
    order = [int(i) for i in d.random.permutation(len(d.dims(x)))]
    d.add("Transpose", [x], exact=True, **({"perm": order} if d.chance(0.9) else {}))


@ONNX.operator("Squeeze", 0.7)
def squeeze(d: Draw) -> None:
    x = d.operand(range(1, 5), DTYPES, where=lambda name: 1 in d.dims(name))
    axes = d.some([i for i, n in enumerate(d.dims(x)) if n == 1])
    named = [d.constant(axes, "int64")] if d.chance(0.8) else []  # else all of one element
    d.add("Squeeze", [x, *named], exact=True)


@ONNX.operator("Unsqueeze", 0.7)
def unsqueeze(d: Draw) -> None:
    x = d.operand(range(4), DTYPES)
    rank = len(d.dims(x)) + d.pick([1, 1, 2])
    axes = [int(i) for i in d.random.permutation(rank)[: rank - len(d.dims(x))]]
    d.add("Unsqueeze", [x, d.constant(sorted(axes), "int64")], exact=True)


@ONNX.operator("Concat", 4.0)
def concat(d: Draw) -> None:
    x = _movable(d)
    axis = _axis(d, x)
    shape, dtype = list(d.dims(x)), d.dtype(x)
    place = axis % len(shape)

    def fits(other: tuple[int, ...]) -> bool:
        rest = [n for i, n in enumerate(other) if i != place]
        return len(other) == len(shape) and rest == shape[:place] + shape[place + 1 :]

    found = [n for n, t in d.types.items() if t.dtype == dtype and fits(t.shape)]
    operands = [x, *(d.pick(found) for _ in range(d.integer(0, 3)))]
    if d.chance(0.2) or len(operands) < 2:
        shape[place] = d.integer(1, 5)
        operands.insert(d.integer(0, 1), _other(d, shape, dtype))
    d.add("Concat", operands, exact=True, axis=axis)


def _other(d: Draw, shape: list[int], dtype: str) -> str:
    if d.chance(0.5) and len(d.inputs) < 6:
        return d.input(shape, dtype)
    return d.constant(d.random.integers(0, 2, shape), dtype)


@ONNX.operator("Split", 1.2)
def split(d: Draw) -> None:
    x = _movable(d)
    axis = _axis(d, x)
    length = d.dims(x)[axis]
    parts = d.integer(1, min(4, max(1, length)))
    if length % parts == 0 and d.chance(0.5):
        count = {"num_outputs": parts} if d.opset >= 18 else {}
        d.add("Split", [x], parts, exact=True, axis=axis, **count)
        return
    cuts = sorted(int(c) for c in d.random.permutation(max(length - 1, 0))[: parts - 1] + 1)
    sizes = [int(n) for n in np.diff([0, *cuts, length])]
    d.add("Split", [x, d.constant(sizes, "int64")], len(sizes), exact=True, axis=axis)


@ONNX.operator("Slice", 2.0)
def cut(d: Draw) -> None:
    x = _movable(d)
    axes = d.some(range(len(d.dims(x))))
    begins, ends, steps = [], [], []
    for axis in axes:
        length = d.dims(x)[axis]
        low, high = sorted((d.integer(0, length), d.integer(0, length)))
        high = high if high > low else length
        step = d.pick([1, 1, 2, 3, -1, -2]) if d.opset >= 10 else 1
        begin, end = (low, high) if step > 0 else (high - 1, low - 1 if low else -length - 1)
        if step > 0 and d.chance(0.3):
            begin, end = begin - length, d.pick([end, 2**31 - 1])
        begins.append(begin)
        ends.append(end)
        steps.append(step)
    operands = [begins, ends, axes, steps][: 4 if d.opset >= 10 else 3]
    d.add("Slice", [x, *(d.constant(o, "int64") for o in operands)], exact=True)


@ONNX.operator("Pad", 1.0)
def pad(d: Draw) -> None:
    x = d.operand(range(1, 5), ("float32", "float32", "int64"))
    shape, mode = d.dims(x), d.pick(["constant", "constant", "reflect", "edge"])
    most = [min(3, n - 1) if mode == "reflect" else 3 for n in shape]
    pads = [d.integer(0, max(m, 0)) if d.chance(0.5) else 0 for m in most * 2]
    operands = [x, d.constant(pads, "int64")]
    if mode == "constant" and d.chance(0.6):
        operands.append(d.constant(np.asarray(d.integer(-2, 2), d.dtype(x))))
    d.add("Pad", operands, exact=True, mode=mode)


@ONNX.operator("Tile", 0.6)
def tile(d: Draw) -> None:
    x = _movable(d)
    repeats = [d.pick([1, 1, 2, 3]) for _ in d.dims(x)]
    d.add("Tile", [x, d.constant(repeats, "int64")], exact=True)


@ONNX.operator("Expand", 0.8)
def expand(d: Draw) -> None:
    x = d.operand(range(5), DTYPES)
    shape = [d.integer(1, 5) if n == 1 else d.pick([1, n]) for n in d.dims(x)]
    if len(shape) < 4 and d.chance(0.3):
        shape.insert(0, d.integer(1, 3))
    d.add("Expand", [x, d.constant(shape, "int64")], exact=True)


def _blocks(name: str) -> None:
    @ONNX.operator(name, 0.5)
    def generate(d: Draw) -> None:
        block = d.pick([2, 2, 3])
        deep = name == "DepthToSpace"

        def fits(x: str) -> bool:
            _, channels, height, width = d.dims(x)
            return not (channels % block**2 if deep else height % block + width % block)

        x = d.operand(4, where=fits)
        modes = {"mode": d.pick(["DCR", "CRD"])} if deep and d.chance(0.7) else {}
        d.add(name, [x], exact=True, blocksize=block, **modes)


_blocks("DepthToSpace")
_blocks("SpaceToDepth")


def _indices(d: Draw, shape: list[int], length: int) -> str:
    """Places on an axis, some counted from behind."""
    if not length:
        raise Refused
    return d.constant(d.random.integers(-length, length, shape), "int64")


@ONNX.operator("Gather", 1.0)
def gather(d: Draw) -> None:
    x = _movable(d)
    axis = _axis(d, x)
    shape = [d.integer(1, 4) for _ in range(d.integer(0, 2))]
    d.add("Gather", [x, _indices(d, shape, d.dims(x)[axis])], exact=True, axis=axis)


@ONNX.operator("GatherElements", 0.5)
def gather_elements(d: Draw) -> None:
    x = _movable(d)
    axis = _axis(d, x)
    shape = [max(1, d.integer(1, n)) if n else 0 for n in d.dims(x)]
    d.add("GatherElements", [x, _indices(d, shape, d.dims(x)[axis])], exact=True, axis=axis)


@ONNX.operator("GatherND", 0.4)
def gather_nd(d: Draw) -> None:
    x = _movable(d)
    depth = d.integer(1, len(d.dims(x)))
    lengths = d.dims(x)[:depth]
    if 0 in lengths:
        raise Refused
    places = np.stack([d.random.integers(0, n, d.integer(3, 3)) for n in lengths], -1)
    d.add("GatherND", [x, d.constant(places, "int64")], exact=True)


@ONNX.operator("ScatterElements", 0.4)
def scatter_elements(d: Draw) -> None:
    x = d.operand(range(1, 4), ("float32", "int64"))
    axis = d.integer(0, len(d.dims(x)) - 1)
    shape = list(d.dims(x))
    if 0 in shape:
        raise Refused
    count = d.integer(1, shape[axis])
    order = np.argsort(d.random.random(shape), axis)  # so that no place is written twice
    places = np.take(order, range(count), axis)
    updates = d.random.integers(-3, 4, places.shape)
    operands = [x, d.constant(places, "int64"), d.constant(updates, d.dtype(x))]
    reduction = d.pick([{}, {}, {"reduction": "add"}, {"reduction": "mul"}])
    d.add("ScatterElements", operands, exact=not reduction, axis=axis, **reduction)


@ONNX.operator("ScatterND", 0.4)
def scatter_nd(d: Draw) -> None:
    x = d.operand(range(1, 4), ("float32", "int64"))
    length, *rest = d.dims(x)
    if not d.types[x].size:
        raise Refused
    count = d.integer(1, min(3, length))
    places = d.random.permutation(length)[:count, None]
    updates = d.random.integers(-3, 4, [count, *rest])
    operands = [x, d.constant(places, "int64"), d.constant(updates, d.dtype(x))]
    d.add("ScatterND", operands, exact=True)


@ONNX.operator("Trilu", 0.3)
def triangle(d: Draw) -> None:
    x = d.operand((2, 3), ("float32", "int64"))
    shift = [d.constant(np.int64(d.integer(-2, 2)))] if d.chance(0.5) else []
    d.add("Trilu", [x, *shift], exact=True, upper=d.integer(0, 1))


@ONNX.operator("OneHot", 0.3)
def one_hot(d: Draw) -> None:
    x = d.operand(range(1, 3), ("int64", "int32"), where=d.within(-9, 8))
    depth, values = d.constant(np.int64(9)), d.constant([0.0, d.integer(1, 2)], "float32")
    d.add("OneHot", [x, depth, values], exact=True, axis=d.pick([-1, 0]))


@ONNX.operator("EyeLike", 0.2)
def eye(d: Draw) -> None:
    d.add("EyeLike", [d.operand(2)], exact=True, k=d.integer(-1, 1))


_RULES = 11  # the operator set in which images are resized by one of several rules


@ONNX.operator("Resize", 0.8)
def resize(d: Draw) -> None:
    x = d.operand(4)
    height, width = d.dims(x)[2:]
    mode = d.pick(["nearest", "nearest", "linear"])
    by = [d.pick([1, 2, 3]), d.pick([1, 2, 3])]  # by whole numbers no pixel is on an edge
    sizes = [*d.dims(x)[:2], height * by[0], width * by[1]]
    if math.prod(sizes) > 20_000:
        raise Refused
    rule = d.pick(["asymmetric", "half_pixel", "align_corners"])
    attributes = {"mode": mode}
    if d.opset >= _RULES:
        attributes["coordinate_transformation_mode"] = rule
    if mode == "nearest" and d.opset >= _RULES:
        attributes.update(coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    nothing = "" if d.opset >= 13 else d.constant([], "float32", single=True)
    if d.chance(0.5) or d.opset < _RULES:
        scales = d.constant([1.0, 1.0, *map(float, by)], "float32", single=True)
        operands = [x, "" if d.opset < _RULES else nothing, scales]
    else:
        operands = [x, nothing, nothing, d.constant(sizes, "int64")]
    d.add("Resize", operands, exact=mode == "nearest", **attributes)


@ONNX.operator("ConstantOfShape", 0.2)
def filled(d: Draw) -> None:
    x = d.operand(dtype=("float32", "int64"))
    shape = d.constant(d.dims(x), "int64")
    value = np.asarray([d.integer(-2, 2)], d.dtype(x))
    made = d.add("ConstantOfShape", [shape], exact=True, value=value)
    d.add("Add", [x, made])


@ONNX.operator("Dropout", 0.2)
def dropout(d: Draw) -> None:
    ratio = [d.constant(np.float32(0.25))] if d.chance(0.5) else []
    d.add("Dropout", [d.operand(), *ratio], exact=True)


@ONNX.operator("SequenceConstruct+ConcatFromSequence", 0.2)
def sequence(d: Draw) -> None:
    x = d.operand(range(1, 4))
    same = [n for n, t in d.types.items() if t == d.types[x]]
    parts = [x, *(d.pick(same) for _ in range(d.integer(0, 2)))]
    d.add("SequenceConstruct+ConcatFromSequence", parts, exact=True, axis=0)
