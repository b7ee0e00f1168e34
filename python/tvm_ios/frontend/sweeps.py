# SPDX-License-Identifier: Apache-2.0
"""Loops that keep a result of each step, at most a known number of them.

TVM's virtual machine cannot write into a part of a tensor. So a loop is a tree: a function for each
power of two takes as many steps, by calling the one of half as many twice, and joins the results.
Each result is copied as often as the tree has levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax

from ..ops.signal_check import FUNCTION, signal_check
from ..sizes.size import AnySize, Size
from .open_sweeps import OpenSweep
from .parts import Part


def swept(
    builder: relax.BlockBuilder,
    name: str,
    count: AnySize,
    condition: relax.Expr,
    states: Sequence[relax.Expr],
    step: Part,
    results: Sequence[relax.TensorType],
) -> relax.Call:
    """Return a call that takes ``count`` steps, as long as a condition holds.

    Parameters
    ----------
    builder : relax.BlockBuilder
    name : str
    count : int or Size
        More than 0.
    condition : relax.Expr
        A truth, without axes; one that always holds, if the count is open.
    states : sequence of relax.Expr
    step : Part
        It takes the number of the step, of int64, the condition and the states, and returns the
        condition, the states and the results of the step.
    results : sequence of TensorType
        Those of a step.

    Returns
    -------
    relax.Call
        The number of steps taken, the condition, the states, and the results of all steps in a
        first axis, with zeros behind those of the steps that were taken.
    """
    carried = [relax.const(0, "int64"), condition, *states]
    if isinstance(count, Size):
        types = [value.ty for value in (*carried, *step.captured)]
        function = OpenSweep(builder, name, types, len(carried), step, results).write()
        return relax.Call(function, [relax.ShapeExpr([count.expr]), *carried, *step.captured])
    tree = _Tree(builder, name, [v.ty for v in carried], step, results)
    levels = [k for k in range(count.bit_length())[::-1] if count >> k & 1]
    functions = {k: tree.function(k) for k in levels}

    def whole(variables: Sequence[relax.Var]) -> relax.Expr:
        return tree.joined([functions[k] for k in levels], variables)

    return relax.Call(tree.write(name, whole), [*carried, *step.captured])


class _Tree:
    """The functions of a loop, by the power of two of the steps that they take."""

    def __init__(
        self,
        builder: relax.BlockBuilder,
        name: str,
        carried: Sequence[tvm.ir.Type],
        step: Part,
        results: Sequence[relax.TensorType],
    ) -> None:
        self._builder, self._name, self._carried = builder, name, carried
        self._step, self._results = step, results
        checks = f"{FUNCTION}_{name}"
        self._signals = builder.add_func(signal_check(checks), checks)
        self._functions: list[tvm.ir.GlobalVar] = []

    def function(self, level: int) -> tvm.ir.GlobalVar:
        """Return the function that takes ``2 ** level`` steps."""
        while len(self._functions) <= level:
            self._functions.append(self._next(1 << len(self._functions)))
        return self._functions[level]

    def _next(self, steps: int) -> tvm.ir.GlobalVar:
        halves = self._functions[-1:] * 2

        def some(variables: Sequence[relax.Var]) -> relax.Expr:
            taken = self.joined(halves, variables) if halves else self._once(variables)
            return relax.If(variables[1], taken, self._skipped(variables, steps))

        return self.write(f"{self._name}_{steps}", some)

    def write(
        self, name: str, body: Callable[[Sequence[relax.Var]], relax.Expr]
    ) -> tvm.ir.GlobalVar:
        """Write a function of what is carried from step to step and of what a step reads."""
        types = [*self._carried, *(value.ty for value in self._step.captured)]
        variables = [relax.Var(f"carried_{i}", ty) for i, ty in enumerate(types)]
        with self._builder.function(name, variables, private=True):
            result = self._builder.normalize(body(variables))
            return self._builder.emit_func_output(result)

    def joined(
        self, functions: Sequence[tvm.ir.GlobalVar], variables: Sequence[relax.Var]
    ) -> relax.Expr:
        """Call functions one after another, and join their results."""
        count = len(self._carried)
        carried: list[relax.Expr] = list(variables[:count])
        bindings, parts = [], []
        for number, function in enumerate(functions):
            taken = relax.Var(f"taken_{number}")
            call = relax.Call(function, [*carried, *variables[count:]])
            bindings.append(relax.VarBinding(taken, call))
            carried = [relax.TupleGetItem(taken, i) for i in range(count)]
            parts.append([relax.TupleGetItem(taken, count + i) for i in range(len(self._results))])
        whole = [
            part[0] if len(part) == 1 else relax.op.concat(list(part), 0)
            for part in zip(*parts, strict=True)
        ]
        return relax.SeqExpr([relax.BindingBlock(bindings)], relax.Tuple([*carried, *whole]))

    def _once(self, variables: Sequence[relax.Var]) -> relax.Expr:
        count = len(self._carried)
        ty = relax.TensorType((), "int64")
        number = relax.call_tir(self._signals, [variables[0]], ty)
        call = relax.Call(self._step.function, [number, *variables[1:]])
        taken = relax.Var("taken")
        bound = relax.BindingBlock([relax.VarBinding(taken, call)])
        fields = [relax.TupleGetItem(taken, i) for i in range(count - 1 + len(self._results))]
        states, results = fields[: count - 1], fields[count - 1 :]
        following = relax.op.add(number, relax.const(1, "int64"))
        rows = [relax.op.expand_dims(result, [0]) for result in results]
        return relax.SeqExpr([bound], relax.Tuple([following, *states, *rows]))

    def _skipped(self, variables: Sequence[relax.Var], steps: int) -> relax.Expr:
        zeros = [relax.op.zeros((steps, *ty.shape.values), str(ty.dtype)) for ty in self._results]
        return relax.Tuple([*variables[: len(self._carried)], *zeros])
