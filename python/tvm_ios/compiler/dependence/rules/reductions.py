# SPDX-License-Identifier: Apache-2.0
"""Operators that combine the elements of axes: reductions, scans, softmax, normalisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..meaning import GONE, Meaning, MeaningRule, Mixing, Operation, Role, Roles, gone
from ..ranges import ANY, FINITE, TRUTH, ZERO, Range, kept_finite, sums, union

Ranges = Sequence[Range]


def _axes(operation: Operation) -> set[int]:
    """Return the axes that an operator combines; all of them by default."""
    axes, rank = operation.attrs.axis, operation.rank
    if axes is None:
        return set(range(rank))
    return {int(a) % rank for a in ([axes] if isinstance(axes, int) else axes)}


def _reduce(mixes: Mixing, known: Callable[[Ranges], Range]) -> MeaningRule:
    def rule(operation: Operation) -> list[Meaning]:
        axes, rank = _axes(operation), operation.rank
        left = [a for a in range(rank) if operation.attrs.keepdims or a not in axes]
        roles = [Role(None, mixes) if a in axes else Role(left.index(a)) for a in range(rank)]
        return [Meaning([roles], known)]

    return rule


def _first(ranges: Ranges) -> Range:
    return ranges[0]


def _finite(ranges: Ranges) -> Range:
    return kept_finite(*ranges)


def _place(_: Ranges) -> Range:
    return FINITE


def _at(axes: set[int], rank: int, mixes: Mixing) -> Roles:
    """Return the roles of axes some of which are combined, but stay."""
    return [Role(a, mixes if a in axes else "") for a in range(rank)]


def _scan(operation: Operation) -> list[Meaning]:
    if operation.attrs.axis is None and operation.rank > 1:
        return [Meaning([gone(operation.data)])]
    return [Meaning([_at(_axes(operation), operation.rank, "prefix")], _finite)]


def _softmax(operation: Operation) -> list[Meaning]:
    roles = _at({int(operation.attrs.axis) % operation.rank}, operation.rank, "weights")
    return [Meaning([roles], lambda r: TRUTH if r[0].finite else ANY)]


def _log_softmax(operation: Operation) -> list[Meaning]:
    roles = _at({int(operation.attrs.axis) % operation.rank}, operation.rank, "any")
    return [Meaning([roles], _finite)]


def _normalise(operation: Operation) -> list[Meaning]:
    """Return the meaning of a normalisation; its weights belong to axes that it combines."""
    _, *weights = operation.operands
    channel = getattr(operation.attrs, "channel_axis", None)
    axes = {*operation.attrs.axes} if channel is None else {*operation.attrs.axes, channel}
    combined = {int(a) % operation.rank for a in axes}
    roles = [_at(combined, operation.rank, "any"), *map(gone, weights)]
    return [Meaning(roles, _finite if float(operation.attrs.epsilon) > 0 else lambda _: ANY)]


def _batch_norm(operation: Operation) -> list[Meaning]:
    data, *weights = operation.operands
    rank, channel = operation.rank, int(operation.attrs.axis) % operation.rank
    combined = set(range(rank)) if operation.attrs.training else {channel}
    first = Meaning([_at(combined, rank, "any"), *map(gone, weights)])
    others = Meaning([gone(data), *map(gone, weights)])
    return [first, others, others]


def _sorted(operation: Operation) -> list[Meaning]:
    axis = int(operation.attrs.axis) % operation.rank
    roles = [GONE if a == axis else Role(a) for a in range(operation.rank)]
    return [Meaning([roles])] * len(operation.shapes)


def _triangle(operation: Operation) -> list[Meaning]:
    rank = operation.rank
    roles = _at({rank - 2, rank - 1}, rank, "prefix")
    return [Meaning([roles], lambda r: union(r[0], ZERO))]


def _flip(operation: Operation) -> list[Meaning]:
    roles = _at({int(operation.attrs.axis) % operation.rank}, operation.rank, "any")
    return [Meaning([roles], _first)]


def _reverse(operation: Operation) -> list[Meaning]:
    """Return the meaning of the reversal of parts of sequences, of lengths that are given."""
    _, lengths = operation.operands
    sequence, batch = (
        int(a) % operation.rank for a in (operation.attrs.seq_axis, operation.attrs.batch_axis)
    )
    roles = [_at({sequence}, operation.rank, "any"), [Role(batch)] * len(lengths.shape)]
    return [Meaning(roles, _first)]


RULES: dict[str, MeaningRule] = {
    "sum": _reduce("sum", sums),
    "max": _reduce("max", _first),
    "min": _reduce("min", _first),
    "prod": _reduce("prod", _finite),
    "mean": _reduce("any", _first),
    **dict.fromkeys(("std", "variance", "median"), _reduce("any", lambda _: ANY)),
    **dict.fromkeys(("argmax", "argmin"), _reduce("any", _place)),
    **dict.fromkeys(("cumsum", "cumprod"), _scan),
    "nn.softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    **dict.fromkeys(
        ("nn.layer_norm", "nn.rms_norm", "nn.instance_norm", "nn.group_norm"), _normalise
    ),
    "nn.batch_norm": _batch_norm,
    **dict.fromkeys(("sort", "argsort", "topk"), _sorted),
    **dict.fromkeys(("tril", "triu"), _triangle),
    "flip": _flip,
    "reverse_sequence": _reverse,
}
