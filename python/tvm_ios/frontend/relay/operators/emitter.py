# SPDX-License-Identifier: Apache-2.0
"""Where operators are converted: what writes Relax, and what it knows of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from ....support.errors import RelayError
from .bindings import Bindings


class Emitter:
    """Writes the bindings of one operator of Relay, and words what it refuses.

    What can be done to a constant at once, such as turning a matrix of weights, is done at once.

    Parameters
    ----------
    bindings : Bindings
        What receives the bindings.
    name : str
        The operator.
    line : int, optional
        Where it is written.
    """

    def __init__(self, bindings: Bindings, name: str, line: int | None) -> None:
        self._bindings = bindings
        self._where = name if line is None else f"{name} (line {line})"

    def __call__(self, expr: relax.Expr) -> relax.Expr:
        """Bind ``expr`` to a variable, unless it needs none."""
        if isinstance(expr, relax.Var) or constant_array(expr) is not None:
            return expr
        return self._bindings.add(expr, self._where)

    def expect(self, count: int) -> None:
        """Count bindings before they are made, where merely listing them may be too much.

        Raises
        ------
        ExpansionError
            When these are too many.
        """
        self._bindings.expect(count, self._where)

    def allocate(self, shape: Sequence[int], dtype: str) -> None:
        """Count a constant before it is computed.

        Raises
        ------
        ExpansionError
            When it is too large.
        """
        self._bindings.allocate(shape, dtype, self._where)

    def error(self, problem: str) -> RelayError:
        """An error that names the operator and the line."""
        return RelayError(f"{self._where} {problem}")

    def number(self, x: relax.Expr, what: str) -> float:
        """The value of a constant that is one number.

        Raises
        ------
        RelayError
            When it is none; the message says ``what`` it is.
        """
        value = constant_array(x)
        if value is None or value.size != 1:
            raise self.error(f"needs {what} as one constant number; bind it as a parameter.")
        return value.reshape(-1)[0].item()

    def reshape(self, x: relax.Expr, shape: Sequence[int]) -> relax.Expr:
        value = constant_array(x)
        if value is not None:
            self.allocate(value.shape, str(value.dtype))
            return constant(value.reshape(shape))
        if 0 in shape:  # which Relax takes for the size that was there
            return constant(np.zeros(shape, dtype_of(x)))
        return x if shape_of(x) == tuple(shape) else self(relax.op.reshape(x, tuple(shape)))

    def transpose(self, x: relax.Expr, axes: Sequence[int]) -> relax.Expr:
        value = constant_array(x)
        if value is not None:
            self.allocate(value.shape, str(value.dtype))
            return constant(value.transpose(axes))
        return x if list(axes) == sorted(axes) else self(relax.op.permute_dims(x, list(axes)))

    def cast(self, x: relax.Expr, dtype: str) -> relax.Expr:
        return x if dtype_of(x) == dtype else self(relax.op.astype(x, dtype))

    def scalar(self, value: float, like: relax.Expr) -> relax.Expr:
        """A number of the type that ``like`` has."""
        return relax.const(value, dtype_of(like))

    def along(self, vector: relax.Expr, axis: int, ndim: int) -> relax.Expr:
        """A vector as a tensor of ``ndim`` axes that is broadcast along all but ``axis``."""
        axis = self.axis(axis, ndim)
        if len(shape_of(vector)) != 1:
            raise self.error(f"needs a vector, but is given a tensor of {list(shape_of(vector))}.")
        return self.reshape(vector, [*[1] * axis, *shape_of(vector), *[1] * (ndim - 1 - axis)])

    def axis(self, axis: int, ndim: int) -> int:
        """``axis`` counted from the front."""
        if not -ndim <= axis < ndim:
            raise self.error(f"has axis {axis}, but its argument has {ndim} axes.")
        return axis % ndim

    def full(self, shape: Sequence[int], value: float, dtype: str) -> relax.Expr:
        """A constant that is the same everywhere."""
        self.allocate(shape, dtype)
        return constant(np.full(shape, value, dtype))

    def positions(self, count: int, dtype: str) -> relax.Expr:
        """The constant of the numbers from 0 to ``count``."""
        self.allocate([count], dtype)
        return constant(np.arange(count, dtype=dtype))

    def slice(self, x: relax.Expr, axis: int, begin: int, end: int, step: int = 1) -> relax.Expr:
        """The part of ``x`` from ``begin`` to ``end`` of an axis that is counted from the front."""
        if (begin, end, step) == (0, shape_of(x)[axis], 1):
            return x
        return self(relax.op.strided_slice(x, [axis], [begin], [end], [step]))


def constant(value: np.ndarray) -> relax.Expr:
    """A constant tensor."""
    return relax.const(np.ascontiguousarray(value).reshape(value.shape), str(value.dtype))


def constant_array(expr: relax.Expr) -> np.ndarray | None:
    """The value of a constant tensor; None for everything else."""
    if isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.value, tvm.runtime.Tensor):
        return expr.value.numpy()
    return None


def shape_of(x: relax.Expr) -> tuple[int, ...]:
    """The shape of a tensor; all shapes of a converted function are known."""
    return tuple(int(size) for size in x.ty.shape.values)


def dtype_of(x: relax.Expr) -> str:
    return str(x.ty.dtype)


def given_dtype(dtype: str | None) -> str | None:
    """An attribute that is a type; None where it is left open, in whichever way it is written."""
    return None if dtype in (None, "", "void") else dtype
