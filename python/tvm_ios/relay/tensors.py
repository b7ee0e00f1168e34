# SPDX-License-Identifier: Apache-2.0
"""Tensors in TVM's binary form, which JSON contains in base64."""

from __future__ import annotations

import base64
import math
import struct

import ml_dtypes  # makes bfloat16 known to NumPy
import numpy as np

_HEADER = struct.Struct("<QQiiiBBH")  # magic, reserved, device, its number, rank, code, bits, lanes
_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_MAX_RANK = 64  # NumPy's
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_DTYPES = {
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64"),
    ml_dtypes.bfloat16.__name__,
}
_NUMBERS = {name: code for code, name in _CODES.items() if name != "bool"}


def decode(text: str) -> np.ndarray:
    """Decode a tensor from base64.

    Raises
    ------
    ValueError
        If the text is damaged or NumPy has no such data type; the message is a sentence.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("It is not valid base64.") from None
    value, end = read_tensor(data, 0)
    if end != len(data):
        raise ValueError("Something follows the tensor.")
    return value


def read_tensor(data: bytes, start: int) -> tuple[np.ndarray, int]:
    """Parse a tensor without copying its elements; return it with its end offset.

    Raises
    ------
    ValueError
        As `decode`.
    """
    at = start + _HEADER.size
    if at > len(data):
        raise ValueError("The tensor's header is cut off.")
    magic, _, _, _, rank, code, bits, lanes = _HEADER.unpack_from(data, start)
    if magic != _MAGIC:
        raise ValueError("It does not begin as TVM's tensors do.")
    if not 0 <= rank <= _MAX_RANK:
        raise ValueError(f"It has {rank} dimensions.")
    sizes = struct.Struct(f"<{rank + 1}q")
    if at + sizes.size > len(data):
        raise ValueError("The tensor's header is cut off.")
    *shape, size = sizes.unpack_from(data, at)
    dtype = _dtype(code, bits, lanes)
    if min(shape, default=0) < 0 or size != math.prod(shape) * dtype.itemsize:
        raise ValueError("The tensor is not as large as its shape.")
    at += sizes.size
    if at + size > len(data):
        raise ValueError("The tensor is cut off.")
    values = np.frombuffer(data, dtype, math.prod(shape), at)
    return values.reshape(shape), at + size


def _dtype(code: int, bits: int, lanes: int) -> np.dtype:
    name = f"{_CODES.get(code, code)}{bits}"
    if name in ("uint1", "bool8"):  # up to v0.19 and later
        name = "bool"
    if lanes == 1 and name in _DTYPES:
        return np.dtype(name)
    raise ValueError(f"A tensor's elements are of type {name}x{lanes}, which NumPy does not have.")


def encode(value: np.ndarray) -> str:
    """Encode a tensor in base64.

    Raises
    ------
    ValueError
        If TVM has no such data type; the message is a sentence.
    """
    name = "uint1" if value.dtype == np.bool_ else value.dtype.name
    kind = name.rstrip("0123456789")
    if kind not in _NUMBERS:
        raise ValueError(f"TVM's tensors have no elements of type {name}.")
    bits = int(name[len(kind) :])
    header = _HEADER.pack(_MAGIC, 0, _CPU, 0, value.ndim, _NUMBERS[kind], bits, 1)
    data = value.tobytes()
    sizes = struct.pack(f"<{value.ndim + 1}q", *value.shape, len(data))
    return base64.b64encode(header + sizes + data).decode()
