# SPDX-License-Identifier: Apache-2.0
"""Convolutions that are added up computed as one, whose result alone is stored.

Convolution is linear: ``conv(x, V) + conv(x, W) = conv(x, V + W)``, the smaller kernel placed
exactly in the larger one; of different inputs the sum is one convolution over the channels of both;
and where a convolution is added to its own input, ``conv(x, W) + x = conv(x, W + I)``, the identity
being a kernel of one tap. Biases are added up. Anything else between a convolution and the addition
forbids it, and so does another reader of the convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from ...graph.fold import constant_array
from ...graph.operators import Operator
from ...graph.recognise import static_shape
from ...kernels.conv2d import Conv2d
from ...kernels.conv2d_sum import conv2d_sum_kernel
from ...kernels.elementwise import Program
from ...kernels.kernel import Kernel
from ...kernels.layout import Layout
from ..feeds import Feed, Feeder, apply_conversions
from ..implement import Implementation, LoweredGraph
from ..rules.convolution import convolve
from .convolutions import stays_blocked, windows_of
from .rule import Reading, Rule
from .sums import leading_sum, with_sum
from .windows import Windows, enlarge

_MOST = 4
"""Operators of a set. The sets of one wide sum grow exponentially with it, and a kernel of many
convolutions is as long as all of theirs."""


@dataclass(frozen=True)
class _Term:
    """One convolution of a sum; ``weights`` are ``[K, C, R, S]`` in float64."""

    data: relax.Expr
    weights: np.ndarray
    windows: Windows


@dataclass(frozen=True)
class _Combination:
    """A sum of convolutions, of a constant per channel, and of feature maps."""

    terms: tuple[_Term, ...]
    shift: np.ndarray
    addends: tuple[relax.Expr, ...]

    def __add__(self, other: _Combination) -> _Combination:
        return _Combination(
            self.terms + other.terms, self.shift + other.shift, self.addends + other.addends
        )


def _sets(lowered: LoweredGraph, op: Operator) -> Iterator[tuple[int, ...]]:
    """Sets that end in ``op`` and are connected by sums, and ``op`` alone if its input is added."""
    if windows_of(op) is None or not stays_blocked(lowered, op) or not leading_sum(op).addends:
        return
    if _with_identities(_combine(lowered, op, {op.index})).terms[1:]:
        yield (op.index,)
    known = {frozenset({op.index})}
    pending = list(known)
    while pending:
        members = pending.pop()
        for producer in {p for m in members for p in _summands(lowered, m)} - members:
            grown = members | {producer}
            if len(grown) <= _MOST and grown not in known:
                known.add(grown)
                pending.append(grown)
                yield tuple(sorted(grown))


def _summands(lowered: LoweredGraph, reader: int) -> list[int]:
    """The convolutions that ``reader`` adds to its own, that nobody else reads."""
    op = lowered.graph.operators[reader]
    producers = []
    for before in lowered.graph.predecessors[reader]:
        producer = lowered.graph.operators[before]
        if _is_summand(lowered, producer) and _adds_once(op, producer.outputs[0]):
            producers.append(before)
    return producers


def _adds_once(op: Operator, value: relax.Expr) -> bool:
    """Whether the sum that the operator begins with is all that reads ``value``, and once."""
    arguments = [
        op.arguments[int(operand.index)]
        for step in op.program.steps
        for operand in step.operands
        if operand.kind == "argument"
    ]
    read = sum(value.same_as(expr) for expr in (*op.anchor.args, *arguments))
    return read == 1 == sum(value.same_as(expr) for expr in leading_sum(op).addends)


def _is_summand(lowered: LoweredGraph, op: Operator) -> bool:
    """Whether the operator is a convolution and a sum, for one reader."""
    if windows_of(op) is None or lowered.implementations[op.index] is None:
        return False
    (value,) = op.outputs
    once = len(lowered.graph.readers.get(value, ())) == 1
    # What leaves the function is not blocked.
    return once and stays_blocked(lowered, op) and leading_sum(op).steps == len(op.program.steps)


def _combine(lowered: LoweredGraph, op: Operator, members: Set[int]) -> _Combination:
    """What ``op`` sums up, the convolutions among ``members`` taken apart."""
    leading = leading_sum(op)
    weights = constant_array(op.anchor.args[1]).astype("float64")
    term = _Term(op.anchor.args[0], weights, windows_of(op))
    result = _Combination((term,), leading.shift, ())
    owner = {
        value: before
        for before in lowered.graph.predecessors[op.index]
        for value in lowered.graph.operators[before].outputs
    }
    for addend in leading.addends:
        before = owner.get(addend) if isinstance(addend, relax.Var) else None
        if before in members:
            result += _combine(lowered, lowered.graph.operators[before], members)
        else:
            zero = np.zeros_like(leading.shift)
            result += _Combination((), zero, (addend,))
    return result


def _with_identities(combination: _Combination) -> _Combination:
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


def _identity(term: _Term, addend: relax.Expr) -> _Term | None:
    """``addend`` as a convolution that the kernel of ``term`` can hold; None if it cannot.

    Where it can the result is as large as the input, and so the one tap lies inside the kernel.
    """
    axes = (term.windows.rows, term.windows.columns)
    windows = Windows(*(replace(w, out=w.size, kernel=1, stride=1, before=0) for w in axes))
    identity = _Term(addend, np.eye(term.weights.shape[1])[:, :, None, None], windows)
    return identity if _fit(term, identity) else None


def _fit(one: _Term, other: _Term) -> bool:
    """Whether one kernel can hold both."""
    same = one.data.same_as(other.data)
    return same and one.windows.alignment == other.windows.alignment


def _gather(terms: Sequence[_Term]) -> list[_Term]:
    """The terms, with those of one input added up that one kernel holds without more taps."""
    gathered: list[_Term] = []
    for term in terms:
        for i, known in enumerate(gathered):
            if not _fit(known, term):
                continue
            windows = enlarge([known.windows, term.windows])
            if windows.taps <= known.windows.taps + term.windows.taps:
                held = [windows.hold(t.weights, t.windows) for t in (known, term)]
                gathered[i] = _Term(term.data, sum(held), windows)
                break
        else:
            gathered.append(term)
    return gathered


def _add(lowered: LoweredGraph, operators: tuple[int, ...]) -> Implementation:
    op = lowered.graph.operators[operators[-1]]  # it reads the others
    combination = _with_identities(_combine(lowered, op, set(operators)))
    rewritten = with_sum(op, combination.shift, combination.addends)
    feeder, result = Feeder(lowered.layouts), Layout(lowered.preferences.core.lanes)
    kernel, feeds = _convolve(lowered, _gather(combination.terms), rewritten.program)
    shape = static_shape(op.anchor, "a result")
    pairs = zip(rewritten.arguments, rewritten.program.arguments, strict=True)
    feeds += tuple(feeder.argument(expr, kind, result, shape) for expr, kind in pairs)
    inputs = tuple(feed.value for feed in feeds)
    return Implementation(operators, apply_conversions(kernel, feeds), inputs, op.outputs)


def _convolve(
    lowered: LoweredGraph, terms: Sequence[_Term], program: Program
) -> tuple[Kernel, tuple[Feed, ...]]:
    """The kernel of the terms in sum, and what feeds it but for the program's arguments."""
    feeder, core = Feeder(lowered.layouts), lowered.preferences.core
    sources = [feeder.layout(term.data) for term in terms]
    weights = [relax.const(term.weights.astype("float32"), "float32") for term in terms]
    images = [feeder.feature_map(t.data, source) for t, source in zip(terms, sources, strict=True)]
    convs = [_conv(term, program) for term in terms]
    if len(terms) == 1:
        kernel, packed = convolve(convs[0], sources[0], weights[0], feeder, lowered.preferences)
        return kernel, (images[0], packed)
    kernel = conv2d_sum_kernel(convs, program, sources, Layout(core.lanes), core)
    feeds = [
        (image, feeder.weights(w, source.block or 1, core.lanes, 1))
        for image, w, source in zip(images, weights, sources, strict=True)
    ]
    return kernel, tuple(feed for pair in feeds for feed in pair)


def _conv(term: _Term, program: Program) -> Conv2d:
    batch, channels = static_shape(term.data, "a feature map")[:2]
    results = (term.weights.shape[0],)
    windows = term.windows
    return Conv2d(batch, channels, windows.rows, windows.columns, results, program=program)


CONVOLUTION_ADD = Rule("convolution-add", Reading(_sets), _add)
