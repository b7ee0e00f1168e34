# SPDX-License-Identifier: Apache-2.0
"""The refusal of sizes that a region's code is not right for."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.script import builder as T

from ....sizes.size import LARGEST_SIZE, Size
from ....sizes.text import requirements
from .region import Region


def check_sizes(region: Region) -> None:
    """Emit the checks of open sizes: of their bounds, and of what was assumed of them."""
    assert region.opened is not None, "some size is open"
    for condition, sentence in requirements(region.opened):
        with T.Assert(condition, sentence):
            pass
    for count in _counts(region):
        fits = _bound(count.expr) <= T.float64(LARGEST_SIZE)
        with T.Assert(fits, f"A tensor of {count} elements is too large."):
            pass


def _counts(region: Region) -> list[Size]:
    """Return the numbers of elements of all tensors that depend on open sizes, each once."""
    counts = {
        spec.num_elements: None
        for stage in region.stages
        for implementation in stage.implementations
        for spec in implementation.kernel.tensors
    }
    return [count for count in counts if isinstance(count, Size)]


def _bound(expr: Any) -> Any:
    """Return a bound of a size in double precision: in 64 bits, a product may start again at 0."""
    if isinstance(expr, tvm.ir.Var | tirx.IntImm):
        return T.Cast("float64", expr)
    a, b = _bound(expr.a), _bound(expr.b)
    kinds = {
        tirx.Add: lambda: a + b,
        tirx.Sub: lambda: a - b,
        tirx.Mul: lambda: a * b,
        tirx.FloorDiv: lambda: a / b,
        tirx.FloorMod: lambda: b,
        tirx.Min: lambda: T.min(a, b),
        tirx.Max: lambda: T.max(a, b),
    }
    return kinds[type(expr)]()
