# SPDX-License-Identifier: Apache-2.0
"""Outputs of a function whose lengths other outputs of it are."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tvm import relax

_ATTRIBUTE = "tvm_ios.lengths"

Length = tuple[int, int, int]
"""The number of an output, its axis, and the number of the output that is the length along it."""


def with_lengths(function: relax.Function, lengths: Sequence[Length]) -> relax.Function:
    """Return a function that says which of its outputs have lengths that others are."""
    return function.with_attr(_ATTRIBUTE, json.dumps(list(lengths))) if lengths else function


def lengths_of(function: relax.Function) -> list[Length]:
    """Return what :func:`with_lengths` says of a function."""
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    return [] if text is None else [(int(o), int(a), int(n)) for o, a, n in json.loads(str(text))]
