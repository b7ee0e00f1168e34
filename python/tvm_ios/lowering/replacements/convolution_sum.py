# SPDX-License-Identifier: Apache-2.0
"""Convolutions that are added up seen as one sum, whatever kind of device computes it.

Convolution is linear: ``conv(x, V) + conv(x, W) = conv(x, V + W)``, the smaller kernel placed
exactly in the larger one; of different inputs the sum is one convolution over the channels of both;
and where a convolution is added to its own input, ``conv(x, W) + x = conv(x, W + I)``, the identity
being a kernel of one tap. Biases are added up. Anything else between a convolution and the addition
forbids it, and so does another reader of the convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from tvm import relax

from ...graph.operators import Operator
from ...relax_ir.constants import held_array
from ..implementation import G, LoweredGraph
from ..kernel import Kernel
from .rule import Reading
from .sums import leading_sum
from .windows import Windows, enlarge, held_windows, windows_of


@dataclass(frozen=True)
class Adding:
    """How the kernels of a device add up a convolution and others.

    Attributes
    ----------
    factors : Hashable
        What is multiplied. The convolutions of a sum have it in common.
    identities : bool
        Whether an input that is added to its convolution may become a part of the weights. Few bits
        hold either one or the weights beside it.
    """

    factors: Hashable = None
    identities: bool = True


Fits = Callable[[G, Operator], Adding | None]
"""How a device's kernels for sums take a convolution of one group and of known weights; None if
they do not."""

_MOST = 4
"""Operators of a set. The sets of one wide sum grow exponentially with it, and a kernel of many
convolutions is as long as all of theirs."""


@dataclass(frozen=True)
class Term:
    """One convolution of a sum.

    Attributes
    ----------
    data : relax.Expr
    weights : numpy.ndarray
        ``[K, C, R, S]`` in float64.
    windows : Windows
    """

    data: relax.Expr
    weights: np.ndarray
    windows: Windows


@dataclass(frozen=True)
class Combination:
    """A sum of convolutions, of a constant per channel, and of feature maps."""

    terms: tuple[Term, ...]
    shift: np.ndarray
    addends: tuple[relax.Expr, ...]

    def __add__(self, other: Combination) -> Combination:
        return Combination(
            self.terms + other.terms, self.shift + other.shift, self.addends + other.addends
        )


def sums_of(fits: Fits[G]) -> Reading[G]:
    """Find the sets of operators that are one sum of convolutions."""
    return Reading(partial(_sets, fits))


def added_up(
    lowered: LoweredGraph[Kernel], operators: Sequence[int], *, identities: bool = True
) -> Combination:
    """Return what a set of operators sums up before its epilogue, in as few terms as possible.

    Parameters
    ----------
    lowered : LoweredGraph
        The operators.
    operators : sequence of int
        The set.
    identities : bool
        Whether inputs become weights, see :class:`Adding`.
    """
    op = lowered.graph.operators[operators[-1]]  # it reads the others
    combination = _combine(lowered, op, set(operators))
    if identities:
        combination = _with_identities(combination)
    return replace(combination, terms=tuple(_gather(combination.terms)))


def _sets(fits: Fits[G], lowered: G, op: Operator) -> Iterator[tuple[int, ...]]:
    """Sets that end in ``op`` and are connected by sums, and ``op`` alone if its input is added."""
    adding = None if windows_of(op) is None else fits(lowered, op)
    if adding is None or not leading_sum(op).addends:
        return
    if adding.identities and _with_identities(_combine(lowered, op, {op.index})).terms[1:]:
        yield (op.index,)
    known = {frozenset({op.index})}
    pending = list(known)
    while pending:
        members = pending.pop()
        for producer in {p for m in members for p in _summands(fits, lowered, m)} - members:
            grown = members | {producer}
            if len(grown) <= _MOST and grown not in known:
                known.add(grown)
                pending.append(grown)
                yield tuple(sorted(grown))


def _summands(fits: Fits[G], lowered: G, reader: int) -> list[int]:
    """Return the convolutions that ``reader`` alone reads, and adds to its own."""
    op = lowered.graph.operators[reader]
    producers = []
    for before in lowered.graph.predecessors[reader]:
        producer = lowered.graph.operators[before]
        if _is_summand(fits, lowered, producer, op) and _adds_once(op, producer.outputs[0]):
            producers.append(before)
    return producers


def _adds_once(op: Operator, value: relax.Expr) -> bool:
    """Return whether only the leading sum of the operator reads ``value``, once."""
    arguments = [
        op.arguments[int(operand.index)]
        for step in op.epilogue.steps
        for operand in step.operands
        if operand.kind == "argument"
    ]
    read = sum(value.same_as(expr) for expr in (*op.call.args, *arguments))
    return read == 1 == sum(value.same_as(expr) for expr in leading_sum(op).addends)


def _is_summand(fits: Fits[G], lowered: G, op: Operator, reader: Operator) -> bool:
    """Return whether the operator is a convolution, and perhaps a sum, that ``reader`` may hold.

    The reader is the only one.
    """
    if windows_of(op) is None or lowered.implementations[op.index] is None:
        return False
    (value,) = op.outputs
    # A variable that is not the dataflow block's own is seen outside of it.
    inner = isinstance(value, relax.DataflowVar)
    once = len(lowered.graph.readers.get(value, ())) == 1
    only = inner and once and leading_sum(op).steps == len(op.epilogue.steps)
    return only and fits(lowered, op) == fits(lowered, reader) is not None


def _combine(lowered: LoweredGraph[Kernel], op: Operator, members: Set[int]) -> Combination:
    """Return what ``op`` sums up, with the convolutions among ``members`` as terms of their own."""
    leading = leading_sum(op)
    weights = held_array(op.call.args[1]).astype("float64")
    term = Term(op.call.args[0], weights, held_windows(op))
    result = Combination((term,), leading.shift, ())
    owner = {
        value: before
        for before in lowered.graph.predecessors[op.index]
        for value in lowered.graph.operators[before].outputs
    }
    for addend in leading.addends:
        before = owner.get(addend) if isinstance(addend, relax.Var) else None
        if before is not None and before in members:
            result += _combine(lowered, lowered.graph.operators[before], members)
        else:
            zero = np.zeros_like(leading.shift)
            result += Combination((), zero, (addend,))
    return result


def _with_identities(combination: Combination) -> Combination:
    """Inputs of the convolutions that are added to them as convolutions of one tap."""
    terms, addends = list(combination.terms), []
    for addend in combination.addends:
        identities = (_identity(term, addend) for term in combination.terms)
        identity = next((found for found in identities if found is not None), None)
        if identity is None:
            addends.append(addend)
        else:
            terms.append(identity)
    return replace(combination, terms=tuple(terms), addends=tuple(addends))


def _identity(term: Term, addend: relax.Expr) -> Term | None:
    """Return ``addend`` as a convolution that the kernel of ``term`` can hold; None if it cannot.

    Where it can the result is as large as the input, and so the one tap lies inside the kernel.
    """
    axes = (term.windows.rows, term.windows.columns)
    windows = Windows(*(replace(w, out=w.size, kernel=1, stride=1, before=0) for w in axes))
    identity = Term(addend, np.eye(term.weights.shape[1])[:, :, None, None], windows)
    return identity if _fit(term, identity) else None


def _fit(one: Term, other: Term) -> bool:
    """Return whether one kernel can hold both."""
    same = one.data.same_as(other.data)
    return same and one.windows.alignment == other.windows.alignment


def _gather(terms: Sequence[Term]) -> list[Term]:
    """Add up the terms of one input that one kernel holds without more taps."""
    gathered: list[Term] = []
    for term in terms:
        for i, known in enumerate(gathered):
            if not _fit(known, term):
                continue
            windows = enlarge([known.windows, term.windows])
            if windows.taps <= known.windows.taps + term.windows.taps:
                held, added = (windows.hold(t.weights, t.windows) for t in (known, term))
                gathered[i] = Term(term.data, held + added, windows)
                break
        else:
            gathered.append(term)
    return gathered
