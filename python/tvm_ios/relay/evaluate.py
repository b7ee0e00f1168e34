# SPDX-License-Identifier: Apache-2.0
"""Evaluation of Relay's expressions: inlines functions, flattens tuples, selects branches.

Only calls of operators remain, which the caller converts; the results represent tensors. Each
expression is evaluated once per application of its function, however often it is used. The
evaluation does not recurse on Python's stack, because graphs are as deep as networks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..support.errors import ExpansionError, RelayError
from .ast import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Module,
    Operator,
    Tuple,
    TupleGetItem,
    Var,
)
from .budget import Budget
from .cursor import MAX_NESTING
from .extent import Extents

CallOperator: TypeAlias = "Callable[[Call, Sequence[Any]], Any]"
"""A function that converts a call of an operator, given its converted arguments."""

_LARGEST_TUPLE = 100_000


@dataclass(eq=False)
class _Frame:
    """The state of one application of a function.

    Attributes
    ----------
    depth : int
        The number of functions that lexically enclose it.
    outer : _Frame or None
        The frame in which the function was defined.
    variables, results : dict
        The values of variables and expressions in this frame.
    """

    depth: int
    outer: _Frame | None
    variables: dict[Var, _Result] = field(default_factory=dict)
    results: dict[Expr, _Result] = field(default_factory=dict)


@dataclass(frozen=True)
class _Result:
    """A value, with the depth of the innermost frame that it depends on."""

    value: Any
    depth: int


@dataclass(frozen=True, eq=False)
class _Closure:
    """A function with the frame in which it was defined."""

    function: Function
    frame: _Frame | None
    name: str


_Step: TypeAlias = "Generator[tuple[Expr, _Frame], _Result, _Result]"
"""An evaluation, as a generator that yields the expressions that it needs."""


class Evaluator:
    """An evaluator of functions of a module.

    Parameters
    ----------
    module : Module
        The module.
    call_operator : callable
        Converts a call of an operator to a value, or to a tuple of values.
    constant : callable
        Converts an array to a value.
    truth : callable
        Returns the truth of a value; None if it is known only at run time.
    budget : Budget
        The limits.
    """

    def __init__(
        self,
        module: Module,
        call_operator: CallOperator,
        constant: Callable[[np.ndarray], Any],
        truth: Callable[[Any], bool | None],
        budget: Budget,
    ) -> None:
        self._module = module
        self._call_operator = call_operator
        self._constant = constant
        self._truth = truth
        self._budget = budget
        self._active: list[_Closure] = []  # the active applications, from @main on
        self._functions: set[Function] = set()  # their functions
        self._constants: dict[int, Any] = {}  # by identity of arrays, which functions may share
        self._extents = Extents()
        self._with_closure: set[int] = set()  # ids of tuples that contain functions

    def run(self, function: Function, arguments: Mapping[Var, Any]) -> Any:
        """Evaluate ``function`` for the values of its parameters.

        Raises
        ------
        RelayError
            If a function is recursive, a condition is not constant, or the result is a function.
        """
        frame = _Frame(0, None)
        self._active = [_Closure(function, None, "@main")]
        self._functions = {function}
        frame.variables |= {var: _Result(value, 0) for var, value in arguments.items()}
        value = self._drive(function.body, frame).value
        if self._has_closure(value):
            raise RelayError("The result of @main is a function; only tensors can be results.")
        return value

    def _drive(self, expr: Expr, frame: _Frame) -> _Result:
        """Evaluate ``expr`` with an explicit stack of suspended evaluations."""
        result = _known(expr, frame)  # None starts an evaluation
        stack: list[_Step] = [] if result else [self._visit(expr, frame)]
        while stack:
            try:
                # Without a result, the evaluation has not begun.
                wanted = next(stack[-1]) if result is None else stack[-1].send(result)
            except StopIteration as done:
                stack.pop()
                result = done.value
            else:
                result = _known(*wanted)
                if result is None:
                    stack.append(self._visit(*wanted))
        assert result is not None, "an evaluation ends with a result"
        return result

    def _visit(self, expr: Expr, frame: _Frame) -> _Step:
        self._budget.spend("parts", 1, self._active[-1].name)
        result = yield from self._evaluate(expr, frame)
        holder = frame
        while holder.depth > result.depth:
            assert holder.outer is not None, "what is outermost has no depth"
            holder = holder.outer
        holder.results[expr] = result
        return result

    def _evaluate(self, expr: Expr, frame: _Frame) -> _Step:
        if isinstance(expr, Constant):
            return _Result(self._shared_constant(expr.value), 0)
        if isinstance(expr, Tuple):
            fields = yield from self._all(expr.fields, frame)
            return _Result(self._tuple([f.value for f in fields]), _deepest(fields))
        if isinstance(expr, TupleGetItem):
            return self._item(expr, (yield expr.tuple_value, frame))
        if isinstance(expr, Let):
            return (yield from self._let(expr, frame))
        if isinstance(expr, If):
            return (yield from self._if(expr, frame))
        if isinstance(expr, Function):
            return _Result(_Closure(expr, frame, "A function"), frame.depth)
        if isinstance(expr, GlobalVar):
            return _Result(_Closure(self._global(expr.name), None, f"@{expr.name}"), 0)
        if isinstance(expr, Call):
            return (yield from self._call(expr, frame))
        if isinstance(expr, Var):
            raise RelayError(f"%{expr.name} is used where it is not defined.")
        raise RelayError(f"The operator {expr.name} is used as a value; only calls are converted.")

    def _all(
        self, exprs: Sequence[Expr], frame: _Frame
    ) -> Generator[tuple[Expr, _Frame], _Result, list[_Result]]:
        results = []
        for expr in exprs:
            results.append((yield expr, frame))
        return results

    def _shared_constant(self, array: np.ndarray) -> Any:
        """Return the value of an array, which all its users share."""
        if id(array) not in self._constants:
            self._constants[id(array)] = self._constant(array)
        return self._constants[id(array)]

    def _tuple(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return several values as a tuple, after checking its size."""
        made = tuple(values)
        extent = self._extents.of_attribute(made)
        where = f"A tuple in {self._active[-1].name}"
        if extent.depth > MAX_NESTING:
            raise RelayError(f"{where} nests deeper than {MAX_NESTING} levels.")
        if extent.size > _LARGEST_TUPLE:
            raise ExpansionError(
                f"{where} has more than {_LARGEST_TUPLE:,} values, its own and those of tuples in "
                "it; the file is damaged, or was made to exhaust the machine."
            )
        self._budget.spend("parts", len(made), where)
        if any(map(self._has_closure, made)):
            self._with_closure.add(id(made))
        return made

    def _has_closure(self, value: Any) -> bool:
        return isinstance(value, _Closure) or id(value) in self._with_closure

    def _item(self, expr: TupleGetItem, result: _Result) -> _Result:
        if not isinstance(result.value, tuple):
            raise RelayError(f".{expr.index} is taken of something that is not a tuple.")
        if not 0 <= expr.index < len(result.value):
            raise RelayError(f".{expr.index} is taken of a tuple of {len(result.value)}.")
        return _Result(result.value[expr.index], result.depth)

    def _let(self, expr: Let, frame: _Frame) -> _Step:
        """Evaluate a chain of lets, which may be long, in a loop."""
        body: Expr = expr
        while isinstance(body, Let):
            self._budget.spend("parts", 1, self._active[-1].name)
            frame.variables[body.var] = yield body.value, frame
            body = body.body
        return (yield body, frame)

    def _if(self, expr: If, frame: _Frame) -> _Step:
        condition = yield expr.condition, frame
        truth = self._truth(condition.value)
        if truth is None:
            raise RelayError(
                "The condition of an if is known only when the network runs; "
                "give it as a constant or as a parameter."
            )
        result = yield (expr.then if truth else expr.otherwise), frame
        return _Result(result.value, max(result.depth, condition.depth))

    def _call(self, expr: Call, frame: _Frame) -> _Step:
        arguments = yield from self._all(expr.args, frame)
        values = [argument.value for argument in arguments]
        if isinstance(expr.callee, Operator):
            if any(map(self._has_closure, values)):
                raise RelayError(f"{expr.callee.name}{_line(expr)} is given a function.")
            return _Result(self._call_operator(expr, values), _deepest(arguments))
        callee = yield expr.callee, frame
        closure = callee.value
        if not isinstance(closure, _Closure):
            raise RelayError(f"Something that is not a function is called{_line(expr)}.")
        inner = self._enter(expr, closure, values)
        self._active.append(closure)
        self._functions.add(closure.function)
        result = yield closure.function.body, inner
        self._active.pop()
        self._functions.remove(closure.function)
        # Outside of the function, the result depends on the callee and the arguments.
        return _Result(result.value, max(_deepest(arguments), callee.depth))

    def _enter(self, expr: Call, closure: _Closure, values: Sequence[Any]) -> _Frame:
        function = closure.function
        if function in self._functions:
            raise RelayError(
                f"{closure.name} calls itself{_line(expr)}; recursion cannot be converted."
            )
        if len(values) != len(function.params):
            raise RelayError(
                f"{closure.name} takes {len(function.params)} arguments, "
                f"but is given {len(values)}{_line(expr)}."
            )
        depth = 0 if closure.frame is None else closure.frame.depth + 1
        inner = _Frame(depth, closure.frame)
        pairs = zip(function.params, values, strict=True)
        inner.variables |= {var: _Result(value, depth) for var, value in pairs}
        return inner

    def _global(self, name: str) -> Function:
        if name not in self._module.functions:
            raise RelayError(f"@{name} is called, but there is no such function.")
        return self._module.functions[name]


def _known(expr: Expr, frame: _Frame) -> _Result | None:
    """Return the value of ``expr`` if this frame or an outer one has it."""
    holder: _Frame | None = frame
    while holder is not None:
        found = holder.variables.get(expr) if isinstance(expr, Var) else None
        found = found or holder.results.get(expr)
        if found is not None:
            return found
        holder = holder.outer
    return None


def _deepest(results: Sequence[_Result]) -> int:
    return max((result.depth for result in results), default=0)


def _line(expr: Call) -> str:
    return "" if expr.line is None else f" in line {expr.line}"
