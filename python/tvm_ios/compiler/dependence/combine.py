# SPDX-License-Identifier: Apache-2.0
"""The result of an operator, from what is known of its operands and what its rule says."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

from .meaning import Meaning, Operation, Role
from .ranges import LARGEST, ONE, ZERO, Range
from .refusal import RefusalError
from .value import Carried, Tracking, Value

Form = tuple[int, int]
_CONTRACTIONS = ("product", "scores", "keys")


def combine(tracking: Tracking, operation: Operation, meaning: Meaning, number: int) -> Value:
    """Return what is known of a result.

    Parameters
    ----------
    tracking : Tracking
    operation : Operation
    meaning : Meaning
        What the result depends on.
    number : int
        Of the result.

    Raises
    ------
    RefusalError
        If it depends on rows or positions in a way that it must not.
    """
    return _Result(tracking, operation, meaning, number).value()


class _Result:
    def __init__(
        self, tracking: Tracking, operation: Operation, meaning: Meaning, number: int
    ) -> None:
        self._tracking, self._operation, self._meaning = tracking, operation, meaning
        self._number, self._shape = number, operation.shapes[number]
        self._operands = list(operation.operands)
        assert [len(v.shape) for v in self._operands] == [len(r) for r in meaning.roles], (
            f"each axis of the operands of {operation.name} has a role"
        )

    def value(self) -> Value:
        self._thin()
        forms = self._forms()
        for axis, form in forms.items():
            self._align(axis, form)
        self._contract()
        if not self._pointwise:
            first, *others = map(self._tracking.whole, self._operands)
            self._operands = [first, *(self._operands[1:] if self._rows else others)]
        for operand, role, carried in self._carried():
            if role.mixes and role.mixes not in _CONTRACTIONS:
                self._check(role, carried, operand)
        return self._made(forms)

    @property
    def _pointwise(self) -> bool:
        return self._meaning.form in ("pointwise", "commutative")

    @property
    def _rows(self) -> bool:
        return self._meaning.form == "rows"

    def _thin(self) -> None:
        """Leave out copies in constants where they make no difference."""
        thin = self._tracking.thin
        if self._pointwise:
            self._operands = list(map(thin, self._operands))
        if self._rows:
            self._operands[1] = thin(self._operands[1], last=2)

    def _carried(self) -> Iterator[tuple[Value, Role, Carried]]:
        for operand, roles in zip(self._operands, self._meaning.roles, strict=True):
            for carried in operand.carried:
                yield operand, roles[carried.axis], carried

    def _forms(self) -> dict[int, Form]:
        """Return how each axis of the result that carries rows or positions is divided."""
        forms: dict[int, Form] = {}
        for operand, role, carried in self._carried():
            if role.axis is None:
                continue
            if operand.shape[carried.axis] != self._shape[role.axis]:
                raise RefusalError("has more or fewer of them than it reads")
            if forms.setdefault(role.axis, carried.form) != carried.form:
                raise RefusalError("combines those that are in different orders")
        return forms

    def _align(self, axis: int, form: Form) -> None:
        """Let all operands that have an axis of the result carry rows or positions along it."""
        for number, (operand, roles) in enumerate(
            zip(self._operands, self._meaning.roles, strict=True)
        ):
            for own, role in enumerate(roles):
                length = operand.shape[own]
                if role.axis != axis or operand.along(own) is not None:
                    continue
                if own in operand.spread and (self._pointwise or (self._rows and number == 1)):
                    continue
                if length == self._shape[axis]:
                    operand = self._tracking.carrying(operand, own, form)
                elif length != 1:
                    raise RefusalError("combines rows with what has fewer")
            self._operands[number] = operand

    def _contract(self) -> None:
        """Raise RefusalError if a product sums over rows, or over what is padded."""
        sums = [
            (number, axis)
            for number, roles in enumerate(self._meaning.roles)
            for axis, role in enumerate(roles)
            if role.mixes in _CONTRACTIONS
        ]
        found = [self._operands[number].along(axis) for number, axis in sums]
        forms = {carried.form for carried in found if carried is not None}
        if not forms:
            return
        if self._tracking.rows:
            raise RefusalError("sums over rows")
        if len(forms) > 1:
            raise RefusalError("sums over positions in different orders")
        (form,) = forms
        padding: dict[str, list[Range]] = {mixes: [] for mixes in _CONTRACTIONS}
        for number, axis in sums:
            operand = self._operands[number]
            if operand.along(axis) is None:
                operand = self._operands[number] = self._tracking.carrying(operand, axis, form)
            its = next(c.masked for c in operand.carried if c.axis == axis)
            padding[self._meaning.roles[number][axis].mixes].append(its)
        _check_product(padding["product"], padding["scores"], padding["keys"])

    def _check(self, role: Role, carried: Carried, operand: Value) -> None:
        """Raise RefusalError if what is combined depends on other rows, or on padding."""
        if self._tracking.rows:
            raise RefusalError("combines rows" if role.mixes != "any" else "may combine rows")
        padding = carried.masked
        exact = {
            "sum": padding == ZERO,
            "max": not padding.nan and padding.high <= -LARGEST,
            "min": not padding.nan and padding.low >= LARGEST,
            "prod": padding == ONE,
            "prefix": carried.form == (1, 1),
            "first": carried.form == (1, 1),
            "weights": padding.hidden,
        }
        if not exact.get(role.mixes, False):
            raise RefusalError("combines positions with those of padding")

    def _made(self, forms: dict[int, Form]) -> Value:
        carried = tuple(
            Carried(axis, *form, self._padding(axis, False), self._padding(axis, True))
            for axis, form in sorted(forms.items())
        )
        known = self._meaning.range([v.range for v in self._operands])
        what = self._operation.described
        if self._meaning.label is not None:
            what = (*self._operation.named, self._meaning.label)
        spread = self._spread(forms)
        kept = self._tracking.kept_shape(self._shape, carried, spread)
        key = self._tracking.key(what, self._number, self._described(kept))
        self._tracking.sources[key] = self._operation
        return Value(self._shape, key, kept, carried, spread, known)

    def _spread(self, forms: dict[int, Form]) -> frozenset[int]:
        """Return the axes along which the result of a pointwise operator is the same."""
        if not self._pointwise:
            return frozenset()
        varying = {
            role.axis
            for operand, roles in zip(self._operands, self._meaning.roles, strict=True)
            for own, role in enumerate(roles)
            if operand.shape[own] > 1 and own not in operand.spread
        }
        longer = {axis for axis, size in enumerate(self._shape) if size > 1}
        return frozenset(longer - varying - set(forms))

    def _described(self, kept: tuple[int, ...]) -> Hashable:
        """Return the operands without what makes no difference to the result, in order."""
        operands: list[tuple[int, tuple[int, ...]]] = [(v.key, v.kept) for v in self._operands]
        if self._rows:
            (left, rows), (right, matrices) = operands
            one = math.prod(matrices[:-2]) == 1 and math.prod(kept[:-1]) == math.prod(rows[:-1])
            if one:
                return (left, (math.prod(rows[:-1]), rows[-1])), (right, matrices[-2:])
        if not self._pointwise:
            return tuple(operands)
        longer = [axis - len(kept) for axis, size in enumerate(kept) if size > 1]
        bare = [
            (key, tuple(shape[axis] if -axis <= len(shape) else 1 for axis in longer))
            for key, shape in operands
        ]
        return tuple(sorted(bare) if self._meaning.form == "commutative" else bare)

    def _padding(self, axis: int, masked: bool) -> Range:
        """Return the numbers of the result at positions of padding along an axis.

        If ``masked``, those that are at no position of padding along another axis.
        """
        ranges = []
        for operand, roles in zip(self._operands, self._meaning.roles, strict=True):
            known = operand.range
            for carried in operand.carried:
                role = roles[carried.axis]
                if role.axis != axis or role.mixes not in ("", "weights"):
                    continue
                # What is combined along another axis may be padding there.
                mixed = any(roles[c.axis].mixes for c in operand.carried if c is not carried)
                known = carried.masked if masked and not mixed else carried.padding
                if role.mixes == "weights" and known.hidden:
                    return ZERO
            ranges.append(known)
        return self._meaning.range(ranges)


def _check_product(
    factors: Sequence[Range], scores: Sequence[Range], keys: Sequence[Range]
) -> None:
    """Raise RefusalError unless products at positions of padding are 0, or have the weight 0."""
    finite = all(padding.finite for padding in (*factors, *keys))
    hidden = any(padding.hidden for padding in scores) if keys else ZERO in factors
    if not (finite and hidden):
        raise RefusalError("sums over positions of padding")
