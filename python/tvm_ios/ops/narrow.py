# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8, 4 and 2 bits in which nothing computes: their codes, and what these stand for.

A network holds an element in a byte. Integers are integers there, within narrower limits. A
floating-point number is its code, which is read from a table, and made by integer arithmetic on the
bits of a float32.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tvm import relax, te, tirx

from tvm_ios_runtime.bits import NARROW, numpy_dtype

_ATTRIBUTE = "tvm_ios.narrow"

Elementwise = Callable[[te.Tensor], te.Tensor]


@dataclass(frozen=True)
class _Format:
    """How a type of floating-point numbers with a sign is coded.

    Attributes
    ----------
    fraction : int
        The bits of the fraction, behind those of the exponent.
    bias : int
        What is added to the exponent.
    largest : int
        The code of the largest finite number.
    beyond, nan : int
        The codes of what is larger, where it is not made the largest, and of no number.
    sign : int
        The place of the sign.
    zeros : bool
        Whether 0 has a sign. If not, the code of -0 is that of no number.
    """

    fraction: int
    bias: int
    largest: int
    beyond: int
    nan: int
    sign: int = 7
    zeros: bool = True


_FORMATS = {
    "float8_e4m3fn": _Format(3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e4m3fnuz": _Format(3, 8, 0x7F, 0x80, 0x80, zeros=False),
    "float8_e5m2": _Format(2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e5m2fnuz": _Format(2, 16, 0x7F, 0x80, 0x80, zeros=False),
    "float4_e2m1fn": _Format(1, 1, 0x7, 0x7, 0x0, sign=3),
}

_FRACTION, _BIAS = 23, 127  # of float32
_INFINITY = 0xFF << _FRACTION

LIMITS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
"""The least and the largest of the integers."""


def is_integer(dtype: str) -> bool:
    """Return whether a narrow type is one of integers."""
    return dtype in LIMITS


def width(dtype: str) -> int:
    """Return the bits of an element."""
    return {"4": 4, "2": 2}.get(dtype[-1] if is_integer(dtype) else dtype[5], 8)


def values(dtype: str) -> np.ndarray:
    """Return what each byte stands for in a floating-point type, as float32."""
    codes = np.arange(256, dtype="uint8")
    return codes.view(numpy_dtype(dtype)).astype("float32")


def read(codes: te.Tensor, table: te.Tensor) -> te.Tensor:
    """Compute what codes stand for, from :func:`values`."""
    return te.compute(codes.shape, lambda *i: table[codes[i].astype("int32")], "values")


def coded(dtype: str, saturate: bool, rounding: str = "up") -> Elementwise:
    """Return what computes the codes of float32.

    Parameters
    ----------
    dtype : str
        A floating-point type.
    saturate : bool
        Whether a number beyond the largest becomes the largest, and not infinite or no number.
    rounding : str
        Of powers of two (float8_e8m0fnu): up, down or nearest, which is up in the middle.
    """

    def code(bits: tirx.PrimExpr) -> tirx.PrimExpr:
        if dtype in _FORMATS:
            return _code(_FORMATS[dtype], bits, saturate)
        return _exponent(bits, saturate, rounding)

    def compute(tensor: te.Tensor) -> te.Tensor:
        def element(*i: tirx.Var) -> tirx.PrimExpr:
            return code(tirx.reinterpret("uint32", tensor[i])).astype("uint8")

        return te.compute(tensor.shape, element, "codes")

    return compute


def _u32(value: int) -> tirx.PrimExpr:
    return tirx.const(value, "uint32")


def _code(form: _Format, bits: tirx.PrimExpr, saturate: bool) -> tirx.PrimExpr:
    """Return the code of the nearest number, the even one of two."""
    size = bits & _u32(0x7FFFFFFF)
    cut = _FRACTION - form.fraction
    odd = (size >> _u32(cut)) & _u32(1)
    rounded = (size + _u32((1 << (cut - 1)) - 1) + odd) >> _u32(cut)
    normal = rounded - _u32((_BIAS - form.bias) << form.fraction)
    # Next to this number, the steps of float32 are those between the least numbers of the format.
    coarse = float(2 ** (_FRACTION + 1 - form.bias - form.fraction))
    moved = tirx.reinterpret("float32", size) + tirx.const(coarse, "float32")
    least = tirx.reinterpret("uint32", moved) - _u32(int(np.float32(coarse).view("uint32")))
    is_normal = size >= _u32((_BIAS - form.bias + 1) << _FRACTION)
    code = tirx.Select(is_normal, normal, least)
    beyond = form.largest if saturate else form.beyond
    code = tirx.Select(code > _u32(form.largest), _u32(beyond), code)
    code = tirx.Select(size > _u32(_INFINITY), _u32(form.nan), code)
    signed = code | ((bits >> _u32(31)) << _u32(form.sign))
    return signed if form.zeros else tirx.Select(code == _u32(0), code, signed)


def _exponent(bits: tirx.PrimExpr, saturate: bool, rounding: str) -> tirx.PrimExpr:
    """Return the code of a power of two, which is the biased exponent of a float32."""
    size = bits & _u32(0x7FFFFFFF)
    fraction, code = size & _u32((1 << _FRACTION) - 1), size >> _u32(_FRACTION)
    least = 1 << (_FRACTION - 1)  # the bits of 2 ** -127, which has no exponent of its own
    fraction = tirx.Select(code == _u32(0), (fraction - _u32(least)) << _u32(1), fraction)
    half = {"up": 1, "nearest": 1 << (_FRACTION - 1), "down": 1 << _FRACTION}[rounding]
    code = code + (fraction >= _u32(half)).astype("uint32")
    below = tirx.any(bits != size, size < _u32(least))
    beyond = size > _u32(0xFE << _FRACTION)
    code = tirx.Select(beyond, _u32(0xFE if saturate else 0xFF), code)
    code = tirx.Select(below, _u32(0 if saturate else 0xFF), code)
    return tirx.Select(size > _u32(_INFINITY), _u32(0xFF), code)


def with_types(
    function: relax.Function, inputs: Mapping[int, str], outputs: Mapping[int, str]
) -> relax.Function:
    """Return a function that says which of its tensors hold narrow types, by their places."""
    if not inputs and not outputs:
        return function
    return function.with_attr(_ATTRIBUTE, json.dumps([[*inputs.items()], [*outputs.items()]]))


def types_of(function: relax.Function) -> tuple[dict[int, str], dict[int, str]]:
    """Return what :func:`with_types` says of a function's inputs and outputs."""
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    inputs, outputs = json.loads(str(text)) if text is not None else ([], [])
    return dict(inputs), dict(outputs)


__all__ = [
    "LIMITS", "NARROW", "coded", "is_integer", "read", "types_of", "values", "width", "with_types",
]  # fmt: skip
