# SPDX-License-Identifier: Apache-2.0
"""Complex numbers, whose real and imaginary parts are the last axis, and Fourier transforms."""

from __future__ import annotations

from tvm import relax

from ....emitter import shape_of
from ...node_emitter import NodeEmitter
from .. import signal
from .domain import contributed

Complex = tuple[relax.Expr, relax.Expr]


@contributed("ComplexMul")
def complex_product(emit: NodeEmitter, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    return _multiplied(emit, _parts(emit, a), _parts(emit, b))


@contributed("ComplexMulConj")
def complex_product_with_conjugate(emit: NodeEmitter, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    """Multiply by the conjugate of the second number."""
    real, imaginary = _parts(emit, b)
    return _multiplied(emit, _parts(emit, a), (real, emit(relax.op.negative(imaginary))))


def _parts(emit: NodeEmitter, x: relax.Expr) -> Complex:
    shape = shape_of(x)
    if shape[-1:] != (2,):
        raise emit.error(f"has data of {list(shape)}; the last axis must be 2.")
    axis = len(shape) - 1
    real, imaginary = (emit.slice(x, axis, part, part + 1) for part in range(2))
    return real, imaginary


def _multiplied(emit: NodeEmitter, a: Complex, b: Complex) -> relax.Expr:
    products = [[emit(relax.op.multiply(x, y)) for y in b] for x in a]
    real = emit(relax.op.subtract(products[0][0], products[1][1]))
    imaginary = emit(relax.op.add(products[0][1], products[1][0]))
    return emit(relax.op.concat([real, imaginary], len(shape_of(real)) - 1))


@contributed("Rfft")
def real_transform(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    normalized: int = 0,
    onesided: int = 1,
    signal_ndim: int = 1,
) -> relax.Expr:
    """Return half of the Fourier transform of real numbers."""
    _check_plain(emit, normalized, onesided, signal_ndim)
    shape = shape_of(data)
    if not shape or shape[-1] % 2:
        raise emit.error(f"transforms data of {list(shape)}; the last axis must be even.")
    return signal.dft(emit, emit.reshape(data, [*shape, 1]), onesided=1)


@contributed("Irfft")
def inverse_of_real_transform(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    normalized: int = 0,
    onesided: int = 1,
    signal_ndim: int,
) -> relax.Expr:
    """Return an even number of real numbers of which half of the transform is given."""
    _check_plain(emit, normalized, onesided, signal_ndim)
    shape = shape_of(data)
    if len(shape) < 2 or shape[-1] != 2 or shape[-2] < 2:
        raise emit.error(f"has data of {list(shape)}, which are no transform.")
    result = signal.dft(emit, data, inverse=1, onesided=1)
    return emit.reshape(result, shape_of(result)[:-1])


def _check_plain(emit: NodeEmitter, normalized: int, onesided: int, signal_ndim: int) -> None:
    if normalized or not onesided or signal_ndim != 1:
        raise emit.error(
            f"has normalized={normalized}, onesided={onesided} and signal_ndim={signal_ndim}; "
            "only 0, 1 and 1 are supported."
        )
