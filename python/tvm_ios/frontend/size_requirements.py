# SPDX-License-Identifier: Apache-2.0
"""What operators require of the sizes of their operands, which Relax cannot check of open ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tvm import relax

from ..relax_ir.expressions import known_shape, op_name
from ..sizes.arithmetic import broadcast, require_equal, require_most, without_common
from ..sizes.size import AnyShape, AnySize, known_equal, size_of

Shapes: TypeAlias = Sequence[AnyShape]
Pairs: TypeAlias = Iterator[tuple[AnySize, AnySize]]


def require_fitting(call: relax.Call) -> None:
    """Assume of open sizes what an operator requires of them.

    Parameters
    ----------
    call : relax.Call
        Of any operator, on operands of known shapes; nothing is required of others.

    Raises
    ------
    ValueError
        If they cannot fit.
    """
    shapes = [sizes_of(arg) for arg in _shaped(call.args)]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return
    name = op_name(call)
    for requirements, require in ((_EQUAL, require_equal), (_AT_MOST, require_most)):
        for a, b in requirements[name](known, call.attrs) if name in requirements else ():
            if not require(a, b):
                raise ValueError(f"has operands of {_listed(known)}, which do not fit")


def sizes_of(x: relax.Expr) -> AnyShape | None:
    """Return the sizes of a shape, or of a tensor of known shape; None of any other expression."""
    return tuple(map(size_of, x.values)) if isinstance(x, relax.ShapeExpr) else known_shape(x)


def _shaped(args: Sequence[relax.Expr]) -> Iterator[relax.Expr]:
    """The arguments of an operator that are tensors or shapes."""
    for arg in args:
        if isinstance(arg, relax.Tuple):
            yield from arg.fields
        elif isinstance(arg, relax.ShapeExpr) or isinstance(
            getattr(arg, "ty", None), relax.TensorType
        ):
            yield arg


def _listed(shapes: Shapes) -> str:
    return " and ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)


def _matmul(shapes: Shapes, _: Any) -> Pairs:
    a, b = shapes
    if a and b:
        yield a[-1], b[-2] if len(b) > 1 else b[0]
    broadcast(a[:-2], b[:-2])


def _conv(shapes: Shapes, attrs: Any) -> Pairs:
    data, weight = shapes
    channels = weight[attrs.kernel_layout.index("I")]
    yield data[attrs.data_layout.index("C")], channels * int(attrs.groups)


def _conv_transpose(shapes: Shapes, attrs: Any) -> Pairs:
    data, weight = shapes
    yield data[attrs.data_layout.index("C")], weight[attrs.kernel_layout.index("I")]


def _of_axis(shapes: Shapes, attrs: Any) -> Pairs:
    """A list of numbers, of each place on an axis."""
    data, *lists = shapes
    axis = int(attrs.axis if hasattr(attrs, "axis") else attrs.channel_axis)
    for numbers in lists:
        yield numbers[0], data[axis]


def _of_groups(shapes: Shapes, attrs: Any) -> Pairs:
    """A list of numbers, of each channel; groups have as many channels as each other."""
    yield from _of_axis(shapes, attrs)
    yield shapes[0][int(attrs.channel_axis)] % int(attrs.num_groups), 0


def _of_axis_or_all(shapes: Shapes, attrs: Any) -> Pairs:
    """The same, or one number for all places."""
    data, *lists = shapes
    yield from _of_axis([data, *(n for n in lists if n not in ((), (1,)))], attrs)


def _of_axes(shapes: Shapes, attrs: Any) -> Pairs:
    """Numbers for the places on several axes."""
    data, *factors = shapes
    for factor in factors:
        axes = [int(axis) for axis in attrs.axes]
        yield from zip(factor, (data[axis] for axis in axes), strict=True)


def _broadcast(shapes: Shapes, _: Any) -> Pairs:
    data, whole = shapes
    ends = whole[len(whole) - len(data) :]
    yield from (pair for pair in zip(data, ends, strict=True) if not known_equal(pair[0], 1))


def _reshaped(shapes: Shapes, _: Any) -> Pairs:
    data, result = shapes
    above, below = without_common(data, result)
    yield math.prod(above), math.prod(below)


def _same(shapes: Shapes, _: Any) -> Pairs:
    for shape in shapes[1:]:
        yield from zip(shapes[0], shape, strict=True)


def _updates(shapes: Shapes, _: Any) -> Pairs:
    _data, indices, updates = shapes
    yield from zip(indices, updates, strict=True)


def _updates_nd(shapes: Shapes, _: Any) -> Pairs:
    data, indices, updates = shapes
    depth = indices[-1]
    assert isinstance(depth, int), "the depth of indices is known"
    yield from zip((*indices[:-1], *data[depth:]), updates, strict=True)


def _beside_axis(shapes: Shapes, attrs: Any) -> Pairs:
    """Indices that have at most as many places as the data, but for one axis."""
    data, indices = shapes[:2]
    place = int(attrs.axis) % len(data)
    yield from (pair for axis, pair in enumerate(zip(indices, data, strict=True)) if axis != place)


def _einsum(shapes: Shapes, attrs: Any) -> Pairs:
    """Each letter is one size, or 1; those that an ellipsis stands for are broadcast.

    Relax counts the operands and the letters.
    """
    sizes: dict[str, AnySize] = {}
    inputs = str(attrs.subscripts).split("->")[0].split(",")
    ellipses = []
    for letters, shape in zip(inputs, shapes, strict=False):
        before, _, after = letters.partition("...")
        behind = len(shape) - len(after)
        ellipses.append(shape[len(before) : behind])
        own = dict[str, AnySize]()
        for letter, size in zip(
            before + after, (*shape[: len(before)], *shape[behind:]), strict=False
        ):
            yield own.setdefault(letter, size), size
        for letter, size in own.items():
            if known_equal(sizes.setdefault(letter, size), 1):
                sizes[letter] = size
            elif not known_equal(size, 1):
                yield sizes[letter], size
    broadcast(*ellipses)


_EQUAL: dict[str, Callable[[Shapes, Any], Pairs]] = {
    "matmul": _matmul,
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _conv),
    **dict.fromkeys(
        ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"), _conv_transpose
    ),
    **dict.fromkeys(("nn.batch_norm", "nn.instance_norm"), _of_axis),
    "nn.group_norm": _of_groups,
    **dict.fromkeys(("nn.prelu", "quantize", "dequantize"), _of_axis_or_all),
    **dict.fromkeys(("nn.layer_norm", "nn.rms_norm"), _of_axes),
    "broadcast_to": _broadcast,
    "reshape": _reshaped,
    "stack": _same,
    "einsum": _einsum,
    "scatter_elements": _updates,
    "scatter_nd": _updates_nd,
}

_AT_MOST: dict[str, Callable[[Shapes, Any], Pairs]] = dict.fromkeys(
    ("gather_elements", "scatter_elements"), _beside_axis
)
