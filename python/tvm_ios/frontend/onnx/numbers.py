# SPDX-License-Identifier: Apache-2.0
"""Kinds of data types, by their names."""

from __future__ import annotations


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


def is_signed(dtype: str) -> bool:
    """Return whether integers of a type may be negative."""
    return dtype.startswith("int")
