# SPDX-License-Identifier: Apache-2.0
"""Numbers and strings in Relay's text form."""

from __future__ import annotations

import math
import re

import numpy as np

DTYPE = re.compile(r"(u?int|b?float)[1-9]\d{0,2}|bool", re.ASCII)
"""The data type of a tensor."""

_INTEGER = re.compile(r"(-?\d{1,30})(?:i(\d{1,3}))?", re.ASCII)
_FLOAT = re.compile(r"(-?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf|nan))f(\d{1,3})?", re.ASCII)
_WIDTHS = (16, 32, 64)
_SUFFIXES = {
    "int16": "i16", "int32": "", "int64": "i64", "float16": "f16", "float32": "f", "float64": "f64"
}  # fmt: skip
_LARGEST = float(np.finfo("float32").max)
_ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_ESCAPED = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}


def read_number(word: str) -> np.ndarray:
    """Parse a number, such as ``1``, ``1i64``, ``2.5e-3f`` or ``1f16``.

    Returns
    -------
    np.ndarray
        A scalar. An integer without a width has 32 bits, or 64 if it needs them.

    Raises
    ------
    ValueError
        If it is not a number or is too large; the message is a sentence.
    """
    if integer := _INTEGER.fullmatch(word):
        value, width = int(integer[1]), int(integer[2] or 32)
        if integer[2] is None and not _fits(value, 32):
            width = 64
        if width not in _WIDTHS:
            raise ValueError(f"{word} has a width that is none of 16, 32, 64.")
        if not _fits(value, width):
            raise ValueError(f"{word} does not fit into {width} bits.")
        return np.array(value, f"int{width}")
    if real := _FLOAT.fullmatch(word):
        return _float(word, float(real[1]), int(real[2] or 32))
    if _FLOAT.fullmatch(word + "f"):
        raise ValueError(f"{word} has no suffix; write {word}f for a float.")
    raise ValueError(f"{word} is not a number.")


def _float(word: str, value: float, width: int) -> np.ndarray:
    if width not in _WIDTHS:
        raise ValueError(f"{word} has a width that is none of 16, 32, 64.")
    with np.errstate(over="ignore"):
        scalar = np.array(value, f"float{width}")
    if np.isinf(scalar) and "inf" not in word:
        raise ValueError(f"{word} does not fit into {width} bits.")
    return scalar


def read_attribute(word: str) -> int | float:
    """Parse a number as an attribute, without a width.

    Raises
    ------
    ValueError
        As `read_number`.
    """
    scalar = read_number(word)
    if scalar.dtype.kind == "i":
        return int(scalar)
    # The text has more digits than a number of the suffix's width would keep.
    return float(word[: word.rindex("f", 1)])


def _fits(value: int, width: int) -> bool:
    return -(1 << width - 1) <= value < 1 << width - 1


def write_scalar(value: np.ndarray) -> str | None:
    """Format a scalar such that it reads as the same scalar; None if its type has no notation."""
    if value.shape != ():
        return None
    if value.dtype == np.bool_:
        return str(bool(value))
    suffix = _SUFFIXES.get(value.dtype.name)
    if suffix is None:
        return None
    return f"{_digits(value)}{suffix}"


def _digits(value: np.ndarray) -> str:
    """Return the shortest digits that identify the number among all of its type."""
    return str(value[()]).removesuffix(".0")


def write_float(value: float) -> str:
    """Format a float as an attribute."""
    digits = repr(value).removesuffix(".0")
    wide = math.isfinite(value) and abs(value) > _LARGEST
    return f"{digits}f64" if wide else f"{digits}f"


def read_string(word: str) -> str:
    r"""Parse a string in quotes.

    Raises
    ------
    ValueError
        If an escape is none of ``\\ \" \n \t \r \xHH``, or the bytes are not UTF-8; the message is
        a sentence.
    """
    parts = re.split(r"\\(x[0-9a-fA-F]{2}|.)", word[1:-1])
    said = bytearray()
    for i, part in enumerate(parts):
        if i % 2 == 0:
            said += part.encode()
        elif len(part) == 3:
            said.append(int(part[1:], 16))
        elif part in _ESCAPES:
            said += _ESCAPES[part].encode()
        else:
            raise ValueError(f"\\{part} is not an escape; write \\\\ for a backslash.")
    try:
        return said.decode()
    except UnicodeDecodeError:
        raise ValueError("This string is not valid UTF-8.") from None


def write_string(value: str) -> str:
    """Format a string in quotes and ASCII: other characters are escaped byte by byte."""
    return '"' + "".join(_escape(character) for character in value) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if " " <= character <= "~":
        return character
    return "".join(f"\\x{byte:02X}" for byte in character.encode())
