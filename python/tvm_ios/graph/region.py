# SPDX-License-Identifier: Apache-2.0
"""Selection of the elementwise operations that are computed together with an anchor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import tvm
from tvm import relax

from ..ops.epilogue import NOTHING, Broadcast, Epilogue, Operand, Step
from ..relax_ir.constants import scalar_constant
from ..relax_ir.expressions import is_float32, known_shape, op_name
from .recognise import ElementwiseCall, broadcast_kind, elementwise, program_kinds

_MAX_STEPS = 32

# Producers write a concatenation in place; with an epilogue it would have to be copied.
_BARE = ("concat",)

Ready = Callable[[relax.Var], bool]


@dataclass(frozen=True)
class Uses:
    """The definitions and the readers of the variables of a list of bindings.

    A reader is a binding's position, or None for the function's result.
    """

    _readers: dict[relax.Var, tuple[int | None, ...]]
    _definitions: dict[relax.Var, int]
    _reads: tuple[tuple[relax.Var, ...], ...]

    @staticmethod
    def of(bindings: Sequence[relax.Binding], result: relax.Expr) -> Uses:
        readers: dict[relax.Var, list[int | None]] = {}
        reads = []
        for i, binding in enumerate(bindings):
            reads.append(_variables(binding.value))
            for variable in reads[-1]:
                readers.setdefault(variable, []).append(i)
        for variable in _variables(result):
            readers.setdefault(variable, []).append(None)
        definitions = {binding.var: i for i, binding in enumerate(bindings)}
        return Uses({v: tuple(r) for v, r in readers.items()}, definitions, tuple(reads))

    def readers(self, variable: relax.Var) -> tuple[int | None, ...]:
        return self._readers.get(variable, ())

    def definition(self, variable: relax.Var) -> int | None:
        """Return the position of the defining binding; None for a parameter of the function."""
        return self._definitions.get(variable)

    def reads(self, binding: int) -> tuple[relax.Var, ...]:
        return self._reads[binding]


def _variables(expr: relax.Expr) -> tuple[relax.Var, ...]:
    """Return the distinct free variables of ``expr`` in order of first occurrence.

    Open sizes are no values that anything computes.
    """
    found = relax.analysis.free_vars(expr)
    return tuple(v for v in found if not isinstance(v.ty, tvm.ir.PrimType))


@dataclass(frozen=True)
class Region:
    """The elementwise operations of one operator.

    Attributes
    ----------
    absorbed : tuple of int
        Positions of the bindings after the first.
    epilogue : Epilogue
        The epilogue.
    arguments : tuple of relax.Expr
        The epilogue's tensor arguments.
    source : relax.Expr or None
        The tensor that the epilogue starts from if the first binding is itself elementwise.
    """

    absorbed: tuple[int, ...] = ()
    epilogue: Epilogue = NOTHING
    arguments: tuple[relax.Expr, ...] = ()
    source: relax.Expr | None = None


def grow(
    bindings: Sequence[relax.Binding],
    pure: Sequence[bool],
    uses: Uses,
    start: int,
    taken: set[int],
) -> Region:
    """Grow a region from binding ``start`` by absorbing readers of its values in program order.

    A region is kept if only its last value is read outside. A value may therefore be read twice
    inside (``x * sigmoid(x)``). Where the first binding is itself elementwise, values that are read
    outside after the region are stored on the way, see :func:`_stored`.

    Parameters
    ----------
    bindings : sequence of relax.Binding
        The function's bindings.
    pure : sequence of bool
        Whether each binding is pure.
    uses : Uses
        The definitions and readers.
    start : int
        The position of the first binding.
    taken : set of int
        The positions of bindings that belong to other operators.
    """
    first = bindings[start]
    shape = known_shape(first.var)
    counts = is_float32(first.var)
    known = counts or elementwise(first.value) is not None
    if shape is None or not known or op_name(first.value) in _BARE:
        return Region()
    builder = _Builder(shape, program_kinds(first.value), {})
    if not builder.begin(first):
        return Region()
    absorbed: list[int] = []
    best = builder.snapshot(absorbed) if counts else Region()
    while len(builder.steps) < _MAX_STEPS:
        members = {start, *absorbed}
        readers = {r for v in builder.values for r in uses.readers(v)} - members
        bound = [r for r in readers if r is not None]
        leaves = len(bound) != len(readers)
        if not bound or (leaves and builder.source is None):
            break
        candidate = min(bound)
        last = absorbed[-1] if absorbed else start
        trial = builder.copy()
        joined = _join(trial, _Body(bindings, pure, uses, start, taken), candidate, last)
        if not joined:
            break
        builder = trial
        absorbed += joined
        stored = _stored(builder, bindings, uses, {start, *absorbed})
        if stored is not None and is_float32(bindings[absorbed[-1]].var):
            best = builder.snapshot(absorbed, stored)
    return best


@dataclass(frozen=True)
class _Body:
    """The bindings that a region grows among."""

    bindings: Sequence[relax.Binding]
    pure: Sequence[bool]
    uses: Uses
    start: int
    taken: set[int]


def _join(builder: _Builder, body: _Body, candidate: int, last: int) -> list[int]:
    """Absorb binding ``candidate``, and before it the elementwise operands that only it reads.

    Such an operand starts from a tensor of its own: the sum of two scaled tensors is one region.
    A region of an anchor gets those after its last operation alone: earlier ones may be another
    anchor's.

    Returns
    -------
    list of int
        The absorbed bindings in order; empty if the candidate does not fit.
    """
    if candidate in body.taken or not body.pure[candidate]:
        return []
    joined: list[int] = []
    begin = last if builder.source is None else body.start
    for variable in body.uses.reads(candidate):
        position = body.uses.definition(variable)
        alone = body.uses.readers(variable) == (candidate,)
        if position is not None and position > begin and variable not in builder.values and alone:
            joined += _join(builder, body, position, last)
    if not builder.absorb(body.bindings[candidate], body.uses, max([last, *joined])):
        return []
    return [*joined, candidate]


def _stored(
    builder: _Builder, bindings: Sequence[relax.Binding], uses: Uses, members: set[int]
) -> tuple[int, ...] | None:
    """Return the values before the last one that are read outside; None if that cannot be.

    Only elementwise operations store them, and so that no value is there later than it could be. An
    operation that alone reads the last value could itself compute it: there would be one more
    tensor to store. Operators that round may store bytes, but of one result.
    """
    *inner, last = builder.values
    outside = {v: [r for r in uses.readers(v) if r not in members] for v in inner}
    stored = [v for v in inner if outside[v]]
    if not stored:
        return ()
    rounds = any(step.op == "round" for step in builder.steps)
    if builder.source is None or rounds or not all(map(is_float32, stored)):
        return None
    readers = [r for v in stored for r in outside[v] if r is not None]
    assert min(readers, default=len(bindings)) > max(members), "the first reader joins or ends it"
    if any(_place(uses, argument) > _place(uses, stored[0]) for argument in builder.arguments):
        return None
    reader, *others = uses.readers(last) or (None,)
    if reader is not None and not others and elementwise(bindings[reader].value) is not None:
        return None
    return tuple(builder.values[v] for v in stored)


def _place(uses: Uses, value: relax.Expr) -> int:
    """Return the position of the binding of a value, or one before all if others bind it."""
    place = uses.definition(value) if isinstance(value, relax.Var) else None
    return -1 if place is None else place


@dataclass
class _Builder:
    """A builder that collects the steps of a region."""

    shape: tuple[int, ...]
    allowed: frozenset[Broadcast]
    values: dict[relax.Var, int]
    steps: list[Step] = field(default_factory=list)
    kinds: list[Broadcast] = field(default_factory=list)
    arguments: list[relax.Expr] = field(default_factory=list)
    source: relax.Expr | None = None

    def begin(self, binding: relax.Binding) -> bool:
        """Start from an anchor's value, or from the operand of a first elementwise operation.

        Return False if the binding is elementwise, but in a form that epilogues do not support. It
        is then an unknown anchor.
        """
        call = elementwise(binding.value)
        if call is None or (is_float32(binding.var) and not call.of_numbers):
            self.values[binding.var] = 0
            return True
        self.source = self._source_of(call)
        if self.source is None or not call.of_numbers:
            self.source = None
            return False
        step = self._step(call, None)
        if step is None:
            self.source = None
            return False
        self._append(binding.var, step)
        return True

    def _source_of(self, call: ElementwiseCall) -> relax.Expr | None:
        """Return the operand to start from, one of the result's shape or else a broadcast one.

        All operands of an outer product are broadcast.
        """
        found: dict[Broadcast, relax.Expr] = {}
        for operand in call.operands:
            shape = known_shape(operand)
            kind = broadcast_kind(shape, self.shape) if shape is not None else None
            if kind is not None and scalar_constant(operand) is None:
                found.setdefault(kind, operand)
        return next(
            (found[kind] for kind in ("full", "last", "channel", "any") if kind in found), None
        )

    def absorb(self, binding: relax.Binding, uses: Uses, last: int) -> bool:
        """Add an elementwise operation; return False if it does not fit.

        An operation with an operand that is computed after the region's last operation is not
        added, because the region would have to wait. It joins the operator of that operand.
        """
        call = elementwise(binding.value) if isinstance(binding, relax.VarBinding) else None
        if call is None or known_shape(binding.var) != self.shape:
            return False
        if not all(is_float32(o) or self._value_of(o) is not None for o in call.operands):
            return False
        step = self._step(call, lambda v: (uses.definition(v) or 0) <= last)
        if step is None:
            return False
        self._append(binding.var, step)
        return True

    def copy(self) -> _Builder:
        return replace(
            self,
            values=dict(self.values),
            steps=list(self.steps),
            kinds=list(self.kinds),
            arguments=list(self.arguments),
        )

    def snapshot(self, absorbed: Sequence[int], stored: tuple[int, ...] = ()) -> Region:
        epilogue = Epilogue(tuple(self.steps), tuple(self.kinds), stored)
        return Region(tuple(absorbed), epilogue, tuple(self.arguments), self.source)

    def _append(self, variable: relax.Var, step: Step) -> None:
        self.steps.append(step)
        self.values[variable] = len(self.steps)

    def _step(self, call: ElementwiseCall, ready: Ready | None) -> Step | None:
        """Return the step of ``call`` and add its tensor arguments; None if it does not fit."""
        kinds, arguments = list(self.kinds), list(self.arguments)
        operands = []
        for expr in call.operands:
            operand = self._operand(expr, kinds, arguments, ready)
            if operand is None:
                return None
            operands.append(operand)
        operands += [Operand("constant", number) for number in call.constants]
        self.kinds, self.arguments = kinds, arguments
        return Step(call.step, tuple(operands))

    def _value_of(self, expr: relax.Expr) -> int | None:
        """Return which value of the region ``expr`` is; None if it is another one."""
        return self.values.get(expr) if isinstance(expr, relax.Var) else None

    def _operand(
        self,
        expr: relax.Expr,
        kinds: list[Broadcast],
        arguments: list[relax.Expr],
        ready: Ready | None,
    ) -> Operand | None:
        """Return how a step reads ``expr``, and append a new tensor argument to the lists."""
        value = self._value_of(expr)
        if value is not None:
            return Operand("value", value)
        if self.source is not None and expr.same_as(self.source):
            return Operand("value", 0)
        number = scalar_constant(expr)
        if number is not None:
            return Operand("constant", number)
        shape = known_shape(expr)
        kind = broadcast_kind(shape, self.shape) if shape is not None else None
        if kind not in self.allowed:
            return None
        if ready is not None and isinstance(expr, relax.Var) and not ready(expr):
            return None
        kinds.append(kind)
        arguments.append(expr)
        return Operand("argument", len(arguments) - 1)
