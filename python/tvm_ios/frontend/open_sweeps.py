# SPDX-License-Identifier: Apache-2.0
"""Loops that keep a result of each of an open number of steps.

A function takes a number of steps that is known when it is called: it calls itself for the first
half and for the others, and joins the results, whose length is that number.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..ops.signal_check import FUNCTION, signal_check
from ..ops.tir_function import tile_scope
from .parts import Part


class OpenSweep:
    """Writes the function, which takes the number of steps as a shape of one size.

    It asks nothing of the condition, which always holds.

    Parameters
    ----------
    builder : relax.BlockBuilder
    name : str
    types : sequence of Type
        Of what is carried from step to step, and of what a step reads.
    carried : int
        How many are carried: the number of the step, the condition and the states.
    step : Part
    results : sequence of TensorType
    """

    def __init__(
        self,
        builder: relax.BlockBuilder,
        name: str,
        types: Sequence[tvm.ir.Type],
        carried: int,
        step: Part,
        results: Sequence[relax.TensorType],
    ) -> None:
        self._builder, self._step, self._num_carried = builder, step, carried
        self._steps = tirx.Var("steps", "int64")
        self._sizes = relax.Var("sizes", relax.ShapeType([self._steps]))
        self._variables = [relax.Var(f"carried_{i}", ty) for i, ty in enumerate(types)]
        self._whole = [_of_steps(ty, self._steps) for ty in results]
        self._ty = relax.TupleType([*types[:carried], *self._whole])
        checks, ends = f"{FUNCTION}_{name}", f"is_last_{name}"
        self._signals = builder.add_func(signal_check(checks), checks)
        self._is_last = builder.add_func(_is_one(ends), ends)
        self._loop = self._declared(name)

    def write(self) -> tvm.ir.GlobalVar:
        """Write the function, and return what calls it."""
        is_last = relax.call_tir(self._is_last, [self._steps], relax.TensorType((), "bool"))
        last = relax.Var("last", relax.TensorType((), "bool"))
        several = relax.If(last, self._once(), self._halves())
        body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(last, is_last)])], several)
        whole = relax.Function([self._sizes, *self._variables], body, self._ty, True)
        self._builder.update_func(self._loop, self._builder.normalize(whole))
        return self._loop

    def _declared(self, name: str) -> tvm.ir.GlobalVar:
        """Declare the function before it calls itself."""
        parameters = [relax.Var(v.name, v.ty) for v in (self._sizes, *self._variables)]
        zeros = [relax.op.zeros(ty.shape, str(ty.dtype)) for ty in self._whole]
        result = relax.Tuple([*parameters[1 : 1 + self._num_carried], *zeros])
        declared = relax.Function(parameters, relax.SeqExpr([], result), self._ty, True)
        return self._builder.add_func(self._builder.normalize(declared), name)

    def _once(self) -> relax.Expr:
        number, *others = self._variables
        checked = relax.call_tir(self._signals, [number], relax.TensorType((), "int64"))
        taken = relax.Var("taken")
        call = relax.Call(self._step.function, [checked, *others])
        fields = [
            relax.TupleGetItem(taken, i) for i in range(self._num_carried - 1 + len(self._whole))
        ]
        count = self._num_carried - 1
        following = relax.op.add(number, relax.const(1, "int64"))
        rows = [relax.op.expand_dims(result, [0]) for result in fields[count:]]
        return self._typed([relax.VarBinding(taken, call)], [following, *fields[:count]], rows)

    def _halves(self) -> relax.Expr:
        count = self._num_carried
        carried: list[relax.Expr] = list(self._variables[:count])
        half = tirx.floordiv(self._steps, tirx.const(2, "int64"))
        bindings, parts = [], []
        for number, steps in enumerate((half, self._steps - half)):
            taken = relax.Var(f"taken_{number}")
            arguments = [relax.ShapeExpr([steps]), *carried, *self._variables[count:]]
            bindings.append(relax.VarBinding(taken, relax.Call(self._loop, arguments)))
            carried = [relax.TupleGetItem(taken, i) for i in range(count)]
            parts.append([relax.TupleGetItem(taken, count + i) for i in range(len(self._whole))])
        whole = [relax.op.concat(list(part), 0) for part in zip(*parts, strict=True)]
        return self._typed(bindings, carried, whole)

    def _typed(
        self,
        bindings: list[relax.Binding],
        carried: Sequence[relax.Expr],
        results: Sequence[relax.Expr],
    ) -> relax.Expr:
        """Return what is carried and the results, whose length is the number of steps."""
        known = [relax.Var(f"result_{i}", ty) for i, ty in enumerate(self._whole)]
        matches = [
            relax.MatchCast(variable, result, variable.ty)
            for variable, result in zip(known, results, strict=True)
        ]
        block = relax.BindingBlock([*bindings, *matches])
        return relax.SeqExpr([block], relax.Tuple([*carried, *known]))


def _of_steps(ty: relax.TensorType, steps: tirx.Var) -> relax.TensorType:
    return relax.TensorType((steps, *ty.shape.values), str(ty.dtype))


def _is_one(name: str) -> tirx.PrimFunc:
    """Build ``name(number, result)``, which tells whether a number is 1."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        number = T.arg("number", tirx.Var("number", "int64"))
        result = T.arg("result", T.buffer((), "bool"))
        with tile_scope():  # TVM requires a block
            T.buffer_store(result, number == tirx.const(1, "int64"), [])
    return builder.get()
