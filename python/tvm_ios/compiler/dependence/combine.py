# SPDX-License-Identifier: Apache-2.0
"""The result of an operator, from what is known of its operands and what its rule says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
        forms = self._forms()
        for axis, form in forms.items():
            self._align(axis, form)
        self._contract()
        for operand, role, carried in self._carried():
            if role.mixes and role.mixes not in _CONTRACTIONS:
                self._check(role, carried, operand)
        return self._made(forms)

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
            its = next(c.padding for c in operand.carried if c.axis == axis)
            padding[self._meaning.roles[number][axis].mixes].append(its)
        _check_product(padding["product"], padding["scores"], padding["keys"])

    def _check(self, role: Role, carried: Carried, operand: Value) -> None:
        """Raise RefusalError if what is combined depends on other rows, or on padding."""
        if self._tracking.rows:
            raise RefusalError("combines rows" if role.mixes != "any" else "may combine rows")
        padding = carried.padding
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
        axes = [(axis, *form) for axis, form in sorted(forms.items())]
        carried = tuple(Carried(*axis, self._padding(axis[0])) for axis in axes)
        known = self._meaning.range([v.range for v in self._operands])
        what = self._operation.described
        if self._meaning.label is not None:
            what = (*self._operation.named, self._meaning.label)
        kept = tuple((v.key, v.kept) for v in self._operands)
        key = self._tracking.key(what, self._number, kept)
        kept_shape = self._tracking.kept_shape(self._shape, carried)
        return Value(self._shape, key, kept_shape, carried, known)

    def _padding(self, axis: int) -> Range:
        """Return the numbers of the result at positions of padding along an axis."""
        ranges = []
        for operand, roles in zip(self._operands, self._meaning.roles, strict=True):
            known = operand.range
            for carried in operand.carried:
                role = roles[carried.axis]
                if role.axis != axis:
                    continue
                if role.mixes == "weights":
                    return ZERO
                if not role.mixes:
                    known = carried.padding
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
