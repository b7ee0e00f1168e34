# SPDX-License-Identifier: Apache-2.0
"""Quantisation of values that are dequantised again, as exporters of quantised models write it.

Between ``quantize`` and ``dequantize`` a value is an integer. Where what reads the integer
dequantises it, what remains is a value of float32 on a grid. It is computed by elementwise
operations, which join the operator before: ``s * clip(round(x / s), low - z, high - z)`` with the
scale ``s``, the zero point ``z``, and the range of the integers. If the value is dequantised by
another scale, it is multiplied by that one instead.

Operators that move integers, or choose the largest, do so with values in float32. A cast of what is
rounded and clipped to an integer, and back to float32, changes nothing. Integers from elsewhere are
cast to float32, and then rounded and clipped, which changes nothing but shows their grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array, number_of
from ..relax_ir.expressions import is_float32, is_op, op_name
from ..relax_ir.functions import bindings_of

_INTEGERS = ("int8", "uint8", "int16", "uint16")  # whose numbers float32 has
_EXACT = 1 << 24  # float32 has all integers up to this one
_MOVES = (
    "broadcast_to", "concat", "expand_dims", "nn.max_pool2d", "permute_dims", "reshape", "squeeze",
    "strided_slice", "take",
)  # fmt: skip
"""Operators each element of whose result is an element of a tensor that they read first."""


def dequantize_in_float(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Compute values in float32 that are quantised, moved, and dequantised."""
    return _Rewriter(mod, bindings_of(func)).visit_expr(func)


@dataclass(frozen=True)
class _Grid:
    """What integers stand for: a scale times their distance from a zero point."""

    scale: float
    zero: int


_WHOLE = _Grid(1.0, 0)


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: tvm.IRModule, bound: dict[relax.Var, relax.Expr]) -> None:
        super().__init__(mod)
        self._bound = bound

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if is_op(call, "quantize") and is_float32(call.args[0]):
            return self._quantized(call)
        grid = None
        if is_op(call, "dequantize"):
            grid = _grid(call)
        elif is_op(call, "astype") and not is_float32(call.args[0]):
            grid = _WHOLE
        if grid is None or not is_float32(call):
            return super().visit_call_(call)
        found = self._in_float(call.args[0], grid)
        if found is None and is_op(call, "dequantize"):
            found = self._bounded(call.args[0], grid)
        return super().visit_call_(call) if found is None else found

    def _bounded(self, integers: relax.Expr, grid: _Grid) -> relax.Expr:
        """Return what integers from elsewhere stand for, in the steps of what is on a grid."""
        limits = np.iinfo(str(integers.ty.dtype))
        wide = self.builder_.emit(relax.op.astype(self.visit_expr(integers), "float32"))
        if grid.zero:
            zero = relax.const(float(grid.zero), "float32")
            wide = self.builder_.emit(relax.op.subtract(wide, zero))
        whole = self.builder_.emit(relax.op.round(wide))
        low, high = limits.min - grid.zero, limits.max - grid.zero
        inside = self.builder_.emit(relax.op.clip(whole, low, high))
        return self._scaled(inside, _Grid(grid.scale, 0))

    def _in_float(self, integers: relax.Expr, grid: _Grid) -> relax.Expr | None:
        """Return what integers stand for; None if they come from elsewhere."""
        value = self._bound.get(integers)
        if value is None:
            return None
        if op_name(value) in _MOVES:
            return self._moved(value, grid)
        if is_op(value, "astype"):
            return self._cast(value, grid)
        low, high = -math.inf, math.inf
        if is_op(value, "clip"):  # to fewer integers than there are
            bounds = _bounds(value)
            value = self._bound.get(value.args[0])
            if bounds is None:
                return None
            low, high = bounds
        if not is_op(value, "quantize") or not is_float32(value.args[0]):
            return None
        written = _grid(value)
        if written is None:
            return None
        inside = self._steps(value, written, low, high)
        return self._scaled(inside, _Grid(grid.scale, grid.zero - written.zero))

    def _steps(self, quantize: relax.Call, grid: _Grid, low: float, high: float) -> relax.Expr:
        """Return the distance from the zero point of what is quantised, and then clipped."""
        limits = np.iinfo(str(quantize.ty.dtype))
        rounded = self._rounded(quantize, grid)
        low, high = max(limits.min, low) - grid.zero, min(limits.max, high) - grid.zero
        return self.builder_.emit(relax.op.clip(rounded, low, high))

    def _rounded(self, quantize: relax.Call, grid: _Grid) -> relax.Expr:
        steps = self.visit_expr(quantize.args[0])
        if grid.scale != 1.0:
            factor = relax.const(grid.scale, "float32")
            steps = self.builder_.emit(relax.op.divide(steps, factor))
        return self.builder_.emit(relax.op.round(steps))

    def _quantized(self, call: relax.Call) -> relax.Expr:
        """Return the cast of steps that are computed in float32, and may be read so.

        They are rounded again after the zero point has been added, which shows their grid.
        """
        grid = _grid(call)
        if grid is None:
            return super().visit_call_(call)
        limits, rounded = np.iinfo(str(call.ty.dtype)), self._rounded(call, grid)
        if grid.zero:
            moved = self.builder_.emit(self._scaled(rounded, _Grid(1.0, -grid.zero)))
            rounded = self.builder_.emit(relax.op.round(moved))
        inside = self.builder_.emit(relax.op.clip(rounded, limits.min, limits.max))
        return relax.op.astype(inside, call.ty.dtype)

    def _moved(self, move: relax.Call, grid: _Grid) -> relax.Expr | None:
        """Return the move of the values in float32."""
        data = move.args[0]
        if isinstance(data, relax.Var) and isinstance(data.ty, relax.TupleType):
            data = self._bound.get(data, data)
        fields = list(data.fields) if isinstance(data, relax.Tuple) else [data]
        if not all(isinstance(field, relax.Var) for field in fields):
            return None
        parts = [self._in_float(field, grid) for field in fields]
        if any(part is None for part in parts):
            return None
        parts = [self.builder_.emit(part) for part in parts]
        first = relax.Tuple(parts) if isinstance(data, relax.Tuple) else parts[0]
        others = [self.visit_expr(argument) for argument in move.args[1:]]
        return self.builder_.emit(relax.Call(move.op, [first, *others], move.attrs))

    def _cast(self, cast: relax.Call, grid: _Grid) -> relax.Expr | None:
        """Return what is cast to an integer if it is one that float32 has."""
        clipped = self._bound.get(cast.args[0])
        if not is_op(clipped, "clip") or not is_float32(clipped):
            return None
        bounds, dtype = _bounds(clipped), str(cast.ty.dtype)
        if bounds is None or "int" not in dtype:
            return None
        limits, (low, high) = np.iinfo(dtype), bounds
        inside = max(limits.min, -_EXACT) <= low <= high <= min(limits.max, _EXACT)
        whole = low == int(low) and high == int(high) if inside else False
        if not whole or not is_op(self._bound.get(clipped.args[0]), "round"):
            return None
        return self._scaled(self.visit_expr(cast.args[0]), grid)

    def _scaled(self, whole: relax.Expr, grid: _Grid) -> relax.Expr:
        if grid.zero:
            zero = relax.const(float(grid.zero), "float32")
            whole = self.builder_.emit(relax.op.subtract(whole, zero))
        if grid.scale == 1.0:
            return whole
        return relax.op.multiply(whole, relax.const(grid.scale, "float32"))


def _bounds(clip: relax.Call) -> tuple[float, float] | None:
    """Return the limits of a clip if both are known."""
    low, high = map(number_of, clip.args[1:3])
    return None if low is None or high is None else (low, high)


def _grid(call: relax.Call) -> _Grid | None:
    """Return the grid of a call if the whole tensor has the same one."""
    scale, zero = map(constant_array, call.args[1:3])
    integers = call.ty.dtype if is_op(call, "quantize") else call.args[0].ty.dtype
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    if str(integers) not in _INTEGERS:
        return None
    return _Grid(float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]))
