# SPDX-License-Identifier: Apache-2.0
"""Branches and loops that are decided while a network runs.

What a branch computes, or a step of a loop, is a part: a function of its own that is scheduled as a
network. A function that chooses or repeats parts is left to TVM's virtual machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax

from ..ops.refusal import FUNCTION as REFUSE
from ..ops.refusal import refusal
from ..ops.signal_check import FUNCTION, signal_check
from ..relax_ir.parts import PART
from ..sizes.branches import assumes_more, assuming_inside, renamed
from ..sizes.size import OpenSizes
from .bindings import Bindings


@dataclass(frozen=True)
class Part:
    """A function, and the values around it that it reads.

    Attributes
    ----------
    function : GlobalVar
        It takes its own parameters and then what it reads, and returns a tuple.
    captured : tuple of relax.Expr
        What it reads, as the function around it calls these values.
    """

    function: tvm.ir.GlobalVar
    captured: tuple[relax.Expr, ...]


class Captures:
    """What a part reads of the values around it: parameters of its own stand for these.

    What is computed from constants alone is computed again, so that it stays known.

    Parameters
    ----------
    bindings : Bindings
    """

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings
        self._inside: dict[relax.Var, relax.Expr] = {}
        self.parameters: dict[relax.Var, relax.Var] = {}

    def of(self, value: relax.Expr) -> relax.Expr:
        """Return what stands for a value inside of the part."""
        if not isinstance(value, relax.Var):
            return value
        if value not in self._inside:
            self._inside[value] = self._made(value)
        return self._inside[value]

    def _made(self, variable: relax.Var) -> relax.Expr:
        if self._bindings.is_known(variable):
            expr = self._bindings.builder.lookup_binding(variable)
            again = tvm_ffi.structural_map(expr, [(relax.Var, self.of)])
            return self._bindings.add(again, "A constant")
        self.parameters[variable] = relax.Var(variable.name, variable.ty)
        return self.parameters[variable]


def part(
    bindings: Bindings,
    name: str,
    parameters: Sequence[relax.Var],
    convert: Callable[[Captures], Sequence[relax.Expr]],
) -> Part:
    """Write a part.

    Parameters
    ----------
    bindings : Bindings
        Of the function around it.
    name : str
    parameters : sequence of relax.Var
        The part's own.
    convert : callable
        Writes what the part computes, and returns its results.
    """
    builder, captures = bindings.builder, Captures(bindings)
    with builder.function(name, private=True, attrs={PART: True}):
        try:
            with builder.dataflow():
                output = builder.emit_output(relax.Tuple(list(convert(captures))))
        except BaseException:
            builder.emit_func_output(relax.Tuple([]), params=[])  # TVM warns of open functions
            raise
        inside = [*parameters, *captures.parameters.values()]
        function = builder.emit_func_output(output, params=inside)
    return Part(function, tuple(captures.parameters))


def part_of_open_sizes(
    bindings: Bindings,
    name: str,
    parameters: Sequence[relax.Var],
    convert: Callable[[Captures], Sequence[relax.Expr]],
    opened: OpenSizes,
) -> Part:
    """Write a part that requires of open sizes what others need not fulfil; see :func:`part`."""
    with assuming_inside(opened):
        made = part(bindings, name, parameters, convert)
        if assumes_more(opened):
            own, names = renamed(opened)
            opened.branches.append(own)
            function = bindings.builder.get()[made.function]
            bindings.builder.update_func(made.function, function.bind_symbolic_vars(names))
    return made


def refused(
    builder: relax.BlockBuilder,
    name: str,
    condition: relax.Expr,
    text: str,
    types: Sequence[relax.TensorType],
) -> Part:
    """Write a function in place of a part that cannot be converted: a call of it is an error.

    Parameters
    ----------
    builder : relax.BlockBuilder
    name : str
    condition : relax.Expr
        The truth that decides on the call.
    text : str
        The message of the ValueError.
    types : sequence of TensorType
        What the part would return.
    """
    raises = builder.add_func(refusal(f"{REFUSE}_{name}", text), f"{REFUSE}_{name}")
    flag = relax.Var("condition", condition.ty)
    with builder.function(name, [flag], private=True):
        raised = builder.emit(relax.call_tir(raises, [flag], relax.TensorType((), "int64")))
        # What it returns depends on the call, so that nothing drops it.
        results = [
            relax.op.full(ty.shape, relax.op.astype(raised, str(ty.dtype)), str(ty.dtype))
            for ty in types
        ]
        function = builder.emit_func_output(builder.normalize(relax.Tuple(results)))
    return Part(function, (condition,))


def chosen(
    builder: relax.BlockBuilder, name: str, condition: relax.Expr, then: Part, otherwise: Part
) -> relax.Call:
    """Return a call of one of two parts, which one a truth without axes decides."""
    captured = list(dict.fromkeys((*then.captured, *otherwise.captured)))
    flag = relax.Var("condition", condition.ty)
    inside = {value: relax.Var(value.name, value.ty) for value in captured}
    with builder.function(name, [flag, *inside.values()], private=True):
        branches = [_sequence(_call(p, [], inside)) for p in (then, otherwise)]
        function = builder.emit_func_output(builder.normalize(relax.If(flag, *branches)))
    return relax.Call(function, [condition, *captured])


def repeated(
    builder: relax.BlockBuilder,
    name: str,
    count: relax.Expr,
    condition: relax.Expr,
    states: Sequence[relax.Expr],
    step: Part,
) -> relax.Call:
    """Return a call that takes at most ``count`` steps, as long as a condition holds.

    A function of the virtual machine cannot jump back, and calls itself instead: for the first half
    of the steps, and for the other half. So it is never deeper in itself than the number of bits of
    the count, and the rest of a long count is skipped once the condition is false.

    Parameters
    ----------
    builder : relax.BlockBuilder
    name : str
    count : relax.Expr
        int64, without axes.
    condition : relax.Expr
        A truth, without axes.
    states : sequence of relax.Expr
    step : Part
        It takes the number of the step, of int64, the condition and the states, and returns the
        condition and the states.

    Returns
    -------
    relax.Call
        The number of steps taken, the condition and the states.
    """
    first = relax.const(0, "int64")
    carried = [first, condition, *states]
    variables = [relax.Var("count", count.ty), *_variables(carried), *_variables(step.captured)]
    result = relax.Tuple(variables[1 : 1 + len(carried)])
    ty = relax.TupleType([value.ty for value in result.fields])
    # It is declared before it calls itself.
    declared = relax.Function(variables, relax.SeqExpr([], result), ty, True)
    loop = builder.add_func(declared, name)
    signals = builder.add_func(signal_check(f"{FUNCTION}_{name}"), f"{FUNCTION}_{name}")
    fresh = [relax.Var(v.name, v.ty) for v in variables]
    body = _Repetition(loop, signals, step, fresh, len(carried)).body()
    whole = relax.Function(fresh, relax.SeqExpr([], body), ty, True)
    builder.update_func(loop, builder.normalize(whole))
    return relax.Call(loop, [count, *carried, *step.captured])


class _Repetition:
    """The body of a function that repeats a part."""

    def __init__(
        self,
        loop: tvm.ir.GlobalVar,
        signals: tvm.ir.GlobalVar,
        step: Part,
        variables: Sequence[relax.Var],
        num_carried: int,
    ) -> None:
        self.loop, self.signals, self.step = loop, signals, step
        self.count, *rest = variables
        self.carried, self.captured = rest[:num_carried], rest[num_carried:]

    def body(self) -> relax.Expr:
        zero, one = (relax.const(n, "int64") for n in (0, 1))
        some = relax.op.greater(self.count, zero)
        goes_on = relax.op.logical_and(some, self.carried[1])
        is_last = relax.op.less_equal(self.count, one)
        several = relax.If(is_last, self._once(), self._halves())
        return relax.If(goes_on, several, relax.Tuple(self.carried))

    def _once(self) -> relax.Expr:
        ty = relax.TensorType((), "int64")
        number = relax.call_tir(self.signals, [self.carried[0]], ty)
        call = relax.Call(self.step.function, [number, *self.carried[1:], *self.captured])
        result = relax.Var("taken")
        next_number = relax.op.add(number, relax.const(1, "int64"))
        fields = [relax.TupleGetItem(result, i) for i in range(len(self.carried) - 1)]
        bound = relax.BindingBlock([relax.VarBinding(result, call)])
        return relax.SeqExpr([bound], relax.Tuple([next_number, *fields]))

    def _halves(self) -> relax.Expr:
        half = relax.op.right_shift(self.count, relax.const(1, "int64"))
        first, second = relax.Var("first"), relax.Var("second")
        fields = [relax.TupleGetItem(first, i) for i in range(len(self.carried))]
        rest = relax.op.subtract(self.count, half)
        bindings = [
            relax.VarBinding(first, relax.Call(self.loop, [half, *self.carried, *self.captured])),
            relax.VarBinding(second, relax.Call(self.loop, [rest, *fields, *self.captured])),
        ]
        return relax.SeqExpr([relax.BindingBlock(bindings)], second)


def _variables(values: Sequence[relax.Expr]) -> list[relax.Var]:
    return [relax.Var(getattr(value, "name", "state"), value.ty) for value in values]


def _call(
    part: Part, arguments: Sequence[relax.Expr], inside: dict[relax.Expr, relax.Var]
) -> relax.Call:
    return relax.Call(part.function, [*arguments, *(inside[value] for value in part.captured)])


def _sequence(call: relax.Call) -> relax.SeqExpr:
    result = relax.Var("result")
    return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, call)])], result)
