# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms, as products with matrices."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ...emitter import constant, dtype_of, shape_of
from ..node_emitter import NodeEmitter
from ..tensors import name_of_type
from .table import operator


def _transformed(
    emit: NodeEmitter, data: relax.Expr, real: np.ndarray, imaginary: np.ndarray
) -> relax.Expr:
    """Multiply complex rows ``[..., n, 1 or 2]`` by a complex matrix ``[n, k]``.

    Where sines are 0, they are exactly: a number that is real has no imaginary part left over.
    """
    shape = shape_of(data)
    dtype = dtype_of(data)
    exact = (np.where(abs(part) < 1e-14 * abs(part).max(), 0, part) for part in (real, imaginary))
    cosines, sines = (constant(part.astype(dtype)) for part in exact)
    parts = [
        emit.reshape(emit.slice(data, len(shape) - 1, i, i + 1), shape[:-1])
        for i in range(shape[-1])
    ]
    first, second = (emit(relax.op.matmul(parts[0], matrix)) for matrix in (cosines, sines))
    if len(parts) == 2:
        of_sines, of_cosines = (
            emit(relax.op.matmul(parts[1], matrix)) for matrix in (sines, cosines)
        )
        first = emit(relax.op.subtract(first, of_sines))
        second = emit(relax.op.add(second, of_cosines))
    return emit(relax.op.stack([first, second], len(shape) - 1))


def _roots(emit: NodeEmitter, inputs: int, length: int, outputs: int) -> np.ndarray:
    """Return the angles of the roots of unity, of a transform of some length."""
    emit.allocate([inputs, outputs], "float64")
    steps = np.outer(np.arange(inputs), np.arange(outputs)) % length
    return 2 * np.pi * steps / length


@operator("DFT", since=20)
def dft(
    emit: NodeEmitter,
    data: relax.Expr,
    dft_length: relax.Expr | None = None,
    axis: relax.Expr | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> relax.Expr:
    place = -2 if axis is None else int(emit.number(axis, "its axis"))
    return _dft(emit, data, dft_length, place, bool(inverse), bool(onesided))


@operator("DFT")
def dft_by_attribute(
    emit: NodeEmitter,
    data: relax.Expr,
    dft_length: relax.Expr | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> relax.Expr:
    return _dft(emit, data, dft_length, axis, bool(inverse), bool(onesided))


def _dft(
    emit: NodeEmitter,
    data: relax.Expr,
    length: relax.Expr | None,
    axis: int,
    inverse: bool,
    onesided: bool,
) -> relax.Expr:
    shape = shape_of(data)
    ndim = len(shape)
    axis = emit.axis(axis, ndim)
    size = shape[axis]
    if length is not None:
        size = int(emit.number(length, "its length"))
    elif inverse and onesided:
        size = 2 * (size - 1)
    order = [a for a in range(ndim - 1) if a != axis] + [axis, ndim - 1]
    rows = emit.transpose(data, order)
    used = min(shape[axis], size // 2 + 1 if inverse and onesided else size)
    rows = emit.slice(rows, ndim - 2, 0, used)
    if inverse and onesided:
        result = _real_inverse(emit, rows, size)
    else:
        angles = _roots(emit, used, size, size // 2 + 1 if onesided else size)
        factor = 1 / size if inverse else 1.0
        sign = 1 if inverse else -1
        result = _transformed(emit, rows, factor * np.cos(angles), sign * factor * np.sin(angles))
    return emit.transpose(result, [order.index(a) for a in range(ndim)])


def _real_inverse(emit: NodeEmitter, rows: relax.Expr, size: int) -> relax.Expr:
    """Return the real numbers whose transform begins with the given half."""
    used = shape_of(rows)[-2]
    angles = _roots(emit, used, size, size)
    twice = np.where((np.arange(used) == 0) | (2 * np.arange(used) == size), 1, 2)[:, None] / size
    parts = [
        emit.reshape(emit.slice(rows, len(shape_of(rows)) - 1, i, i + 1), shape_of(rows)[:-1])
        for i in (0, 1)
    ]
    dtype = dtype_of(rows)
    cosines, sines = (constant((twice * f(angles)).astype(dtype)) for f in (np.cos, np.sin))
    real, imaginary = (
        emit(relax.op.matmul(part, matrix))
        for part, matrix in zip(parts, (cosines, sines), strict=True)
    )
    result = emit(relax.op.subtract(real, imaginary))
    return emit.reshape(result, [*shape_of(result), 1])


@operator("STFT")
def stft(
    emit: NodeEmitter,
    signal: relax.Expr,
    frame_step: relax.Expr,
    window: relax.Expr | None = None,
    frame_length: relax.Expr | None = None,
    *,
    onesided: int = 1,
) -> relax.Expr:
    """Transform windows of a signal that follow each other by some steps."""
    shape = shape_of(signal)
    if len(shape) == 2:
        signal = emit.reshape(signal, [*shape, 1])
        shape = shape_of(signal)
    step = int(emit.number(frame_step, "its step"))
    if frame_length is not None:
        size = int(emit.number(frame_length, "its length"))
    elif window is not None:
        size = shape_of(window)[0]
    else:
        raise emit.error("has neither a window nor a length.")
    count = (shape[1] - size) // step + 1
    if step < 1 or count < 1:
        raise emit.error(f"has a step of {step} and windows of {size} for {shape[1]} elements.")
    emit.allocate([count, size], "int64")
    places = np.arange(count)[:, None] * step + np.arange(size)
    frames = emit(relax.op.take(signal, constant(places), 1, "clip"))
    if window is not None:
        frames = emit(relax.op.multiply(frames, emit.along(window, 2, 4)))
    angles = _roots(emit, size, size, size // 2 + 1 if onesided else size)
    return _transformed(emit, frames, np.cos(angles), -np.sin(angles))


@operator("MelWeightMatrix")
def mel_weight_matrix(
    emit: NodeEmitter,
    num_mel_bins: relax.Expr,
    dft_length: relax.Expr,
    sample_rate: relax.Expr,
    lower_edge_hertz: relax.Expr,
    upper_edge_hertz: relax.Expr,
    *,
    output_datatype: int = 1,
) -> relax.Expr:
    """Return the triangles by which frequencies count for each step of the mel scale."""
    bins, length, rate, low, high = (
        emit.number(x, what)
        for x, what in (
            (num_mel_bins, "its bins"),
            (dft_length, "its length"),
            (sample_rate, "its rate"),
            (lower_edge_hertz, "its lower edge"),
            (upper_edge_hertz, "its upper edge"),
        )
    )
    rows = int(length) // 2 + 1
    emit.allocate([rows, int(bins)], "float64")
    mels = 2595 * np.log10(1 + np.array([low, high]) / 700)
    edges = mels[0] + np.arange(int(bins) + 2) * ((mels[1] - mels[0]) / (bins + 2))
    hertz = 700 * (10 ** (edges / 2595) - 1)
    places = np.floor((length + 1) * hertz / rate).astype("int64")
    matrix = np.zeros((rows, int(bins)))
    for i, (begin, middle, end) in enumerate(zip(places, places[1:], places[2:], strict=False)):
        if middle == begin:
            matrix[middle, i] = 1
        for at in range(begin, middle + 1):
            if middle > begin:
                matrix[at, i] = (at - begin) / (middle - begin)
        for at in range(middle, end):
            matrix[at, i] = (end - at) / (end - middle)
    return constant(matrix.astype(name_of_type(emit, output_datatype)))
