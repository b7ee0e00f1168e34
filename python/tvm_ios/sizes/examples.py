# SPDX-License-Identifier: Apache-2.0
"""Examples of open dimensions that fulfil what a network requires of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx

Expr = Any
Hints = Mapping[tvm.ir.Var, int]
Bounds = Mapping[tvm.ir.Var, tuple[int, int]]

_MOST = 1024
"""The largest size that is tried of a dimension."""


class OtherExample(Exception):
    """A network is to be read again, with what it requires of its sizes.

    Attributes
    ----------
    examples : dict of str to int
        An example for which that holds, by the names of the dimensions.
    known : dict of str to int or str
        Dimensions that have one size, or that of another dimension.
    required : Expr or None
        What holds for the example.
    """

    def __init__(
        self,
        examples: dict[str, int],
        known: dict[str, int | str] | None = None,
        required: Expr | None = None,
    ) -> None:
        super().__init__(f"sizes such as {examples} are required, and {known}")
        self.examples, self.known, self.required = examples, known or {}, required


def value_of(expr: Expr, hints: Hints) -> int:
    """Return the value of an expression for an example."""
    put_in = [(tvm.ir.Var, lambda v: tirx.const(hints[v], "int64"))]
    return int(sym.Analyzer().simplify(tvm_ffi.structural_map(expr, put_in)).value)


def other_example(
    required: Expr, conditions: Sequence[Expr], hints: Hints, bounds: Bounds
) -> dict[str, int] | None:
    """Return an example for which conditions hold, one of which does not for the present one.

    One dimension differs, or two do, and those that conditions say to be equal to what depends on
    them: the fewer, and the less, the better.
    """
    variables = [v for v in tirx.analysis.undefined_vars(required) if v in hints]
    for candidate in _candidates(variables, hints, bounds):
        for changed in ({**hints, **candidate}, _tied(candidate, conditions, hints)):
            if value_of(required, changed) and all(value_of(c, changed) for c in conditions):
                return {variable.name: size for variable, size in changed.items()}
    return None


def _tied(
    candidate: Mapping[tvm.ir.Var, int], conditions: Sequence[Expr], hints: Hints
) -> dict[tvm.ir.Var, int]:
    """Return an example in which other dimensions are as conditions compute them."""
    changed = {**hints, **candidate}
    for condition in conditions:
        if not isinstance(condition, tirx.EQ):
            continue
        for variable, value in ((condition.a, condition.b), (condition.b, condition.a)):
            if variable in hints and variable not in candidate:
                changed[variable] = value_of(value, changed)
    return changed


def _candidates(
    variables: Sequence[tvm.ir.Var], hints: Hints, bounds: Bounds
) -> Iterator[dict[tvm.ir.Var, int]]:
    for variable in variables:
        for size in _near(hints[variable], bounds[variable]):
            yield {variable: size}
    for i, first in enumerate(variables):
        for second in variables[:i]:  # such as the height and the width, which become the same
            for size in _near(hints[first], bounds[first]):
                if bounds[second][0] <= size <= bounds[second][1]:
                    yield {first: size, second: size}


def _near(hint: int, bounds: tuple[int, int]) -> list[int]:
    """Return sizes in the order of how little they differ from an example."""
    sizes = range(bounds[0], min(bounds[1], max(_MOST, bounds[0])) + 1)
    return sorted((s for s in sizes if s != hint), key=lambda s: max(s / hint, hint / s))
