# SPDX-License-Identifier: Apache-2.0
"""Splitting, joining and repeating of tensors."""

from __future__ import annotations

from tvm import relax

from ...frontend.emitter import Emitter, shape_of
from ...frontend.limits import MAX_RANK
from .table import operator

Sizes = tuple[int, ...]
Tensors = tuple[relax.Expr, ...]


@operator("concatenate", of_tuple=True)
def concatenate(emit: Emitter, tensors: Tensors, *, axis: int = 0) -> relax.Expr:
    if len(tensors) == 1:
        return tensors[0]
    return emit(relax.op.concat(list(tensors), emit.axis(axis, len(shape_of(tensors[0])))))


@operator("stack", of_tuple=True)
def stack(emit: Emitter, tensors: Tensors, *, axis: int = 0) -> relax.Expr:
    return emit(relax.op.stack(list(tensors), emit.axis(axis, len(shape_of(tensors[0])) + 1)))


@operator("split")
def split(
    emit: Emitter, data: relax.Expr, *, indices_or_sections: int | Sizes, axis: int = 0
) -> Tensors:
    """Split into equal parts, or before each of the positions."""
    axis = emit.axis(axis, len(shape_of(data)))
    where: int | list[int]
    if isinstance(indices_or_sections, tuple):
        where, count = list(indices_or_sections), len(indices_or_sections) + 1
    else:
        where = count = int(indices_or_sections)
        if count < 1 or shape_of(data)[axis] % count:
            raise emit.error(f"cannot divide {shape_of(data)[axis]} into {count} equal parts.")
    if count == 1:
        return (data,)
    emit.expect(count)
    parts = emit(relax.op.split(data, where, axis))
    return tuple(emit(relax.TupleGetItem(parts, i)) for i in range(count))


@operator("strided_slice")
def strided_slice(
    emit: Emitter,
    data: relax.Expr,
    *,
    begin: Sizes,
    end: Sizes,
    strides: Sizes | None = None,
    slice_mode: str = "end",
    axes: Sizes | None = None,
) -> relax.Expr:
    shape = shape_of(data)
    chosen = [emit.axis(i, len(shape)) for i in axes] if axes else list(range(len(shape)))
    slices = []
    for i, axis in enumerate(chosen):
        step = strides[i] if strides and i < len(strides) else 1
        first = begin[i] if i < len(begin) else None
        last = end[i] if i < len(end) else None
        if slice_mode == "size":
            step, last = 1, _end_of(shape[axis], first, last)
        slices.append(slice(first, last, step).indices(shape[axis]))
    # In Relax, -1 counts from the back, too; the end before the first element is -size - 1.
    ends = [
        stop if stop >= 0 else -shape[axis] - 1
        for axis, (_, stop, _) in zip(chosen, slices, strict=True)
    ]
    if all(s == (0, shape[axis], 1) for axis, s in zip(chosen, slices, strict=True)):
        return data
    starts, steps = [s[0] for s in slices], [s[2] for s in slices]
    return emit(relax.op.strided_slice(data, chosen, starts, ends, steps))


def _end_of(size: int, begin: int | None, count: int | None) -> int | None:
    """Return the end of a slice that is given by its size; -1 means all."""
    if count is None or count < 0 or begin is None:
        return None
    return (begin + size if begin < 0 else begin) + count


@operator("slice_like")
def slice_like(
    emit: Emitter, data: relax.Expr, like: relax.Expr, *, axes: Sizes | None = None
) -> relax.Expr:
    """Return the beginning of ``data``, with the sizes of ``like``."""
    shape, wanted = shape_of(data), shape_of(like)
    count = min(len(shape), len(wanted))
    chosen = [emit.axis(i, len(shape)) for i in axes] if axes else list(range(count))
    ends = [wanted[i] for i in chosen]
    if all(shape[i] == wanted[i] for i in chosen):
        return data
    return emit(relax.op.strided_slice(data, chosen, [0] * len(chosen), ends))


@operator("tile")
def tile(emit: Emitter, data: relax.Expr, *, reps: Sizes) -> relax.Expr:
    return emit(relax.op.tile(data, list(reps)))


@operator("repeat")
def repeat(emit: Emitter, data: relax.Expr, *, repeats: int, axis: int | None = None) -> relax.Expr:
    return emit(relax.op.repeat(data, repeats, axis))


@operator("reverse")
def reverse(emit: Emitter, data: relax.Expr, *, axis: int) -> relax.Expr:
    return emit(relax.op.flip(data, emit.axis(axis, len(shape_of(data)))))


@operator("reverse_sequence")
def reverse_sequence(
    emit: Emitter,
    data: relax.Expr,
    seq_lengths: relax.Expr,
    *,
    seq_axis: int = 1,
    batch_axis: int = 0,
) -> relax.Expr:
    return emit(relax.op.reverse_sequence(data, seq_lengths, seq_axis, batch_axis))


@operator("meshgrid", of_tuple=True)
def meshgrid(emit: Emitter, tensors: Tensors, *, indexing: str = "ij") -> Tensors:
    if len(tensors) > MAX_RANK:
        raise emit.error(f"has {len(tensors)} tensors; a tensor has at most {MAX_RANK} axes.")
    vectors = [emit.reshape(x, (-1,)) if not shape_of(x) else x for x in tensors]
    grids = emit(relax.op.meshgrid(vectors, indexing))
    return tuple(emit(relax.TupleGetItem(grids, i)) for i in range(len(tensors)))


@operator("nn.fifo_buffer")
def fifo_buffer(
    emit: Emitter, data: relax.Expr, buffer: relax.Expr, *, axis: int = 0
) -> relax.Expr:
    """Append ``data`` to a buffer, and return the newest part."""
    axis = emit.axis(axis, len(shape_of(data)))
    joined = emit(relax.op.concat([buffer, data], axis))
    end = shape_of(joined)[axis]
    return emit.slice(joined, axis, end - shape_of(buffer)[axis], end)
