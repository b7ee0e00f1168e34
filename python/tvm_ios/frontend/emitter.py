# SPDX-License-Identifier: Apache-2.0
"""The emitter of Relax expressions for the converters, and properties of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from ..sizes.arithmetic import is_empty
from ..sizes.size import AnyShape, AnySize, Size, hints_of, is_open, known_equal, size_of
from ..support.errors import ModelError
from .bindings import Bindings
from .fitting import fitted

HALVES = ("float16", "bfloat16")


class Emitter:
    """A writer of the bindings of one operator, and of its error messages.

    Simple operations on constants, such as a transposition of weights, are done at once.

    Parameters
    ----------
    bindings : Bindings
        The receiver of the bindings.
    where : str
        The operator, as the subject of a sentence.
    error : type of ModelError
        What is raised for an operator that cannot be converted.

    Attributes
    ----------
    where : str
    """

    def __init__(
        self, bindings: Bindings, where: str, error: type[ModelError] = ModelError
    ) -> None:
        self._bindings, self.where, self._error = bindings, where, error

    def __call__(self, expr: relax.Expr) -> relax.Expr:
        """Bind ``expr`` to a variable, unless it is one or is a constant."""
        if isinstance(expr, relax.Var) or is_constant(expr):
            return expr
        return self._bindings.add(fitted(expr, self), self.where)

    def expect(self, count: int) -> None:
        """Count bindings before they are created and listed.

        Raises
        ------
        ModelError
            If they are too many.
        """
        self._bindings.expect(count, self.where)

    def allocate(self, shape: Sequence[AnySize], dtype: str) -> None:
        """Count a constant before it is computed.

        Raises
        ------
        ModelError
            If it is too large.
        """
        self._bindings.allocate(hints_of(shape), dtype, self.where)

    def error(self, problem: str) -> ModelError:
        """Return an error that names the operator."""
        return self._error(f"{self.where} {problem}")

    def number(self, x: relax.Expr, what: str) -> float:
        """Return the value of a constant with one element.

        Raises
        ------
        ModelError
            If it is not such a constant; the message contains ``what``.
        """
        value = constant_array(x)
        if value is None or value.size != 1:
            raise self.error(f"needs {what} as one constant number; bind it as a parameter.")
        return value.reshape(-1)[0].item()

    def reshape(self, x: relax.Expr, shape: Sequence[AnySize]) -> relax.Expr:
        value = constant_array(x)
        if value is not None and not is_open(shape):
            self.allocate(value.shape, str(value.dtype))
            return constant(value.reshape(shape))
        if is_empty(shape):  # Relax interprets 0 as the old size
            return self.full(shape, 0, dtype_of(x))
        return x if has_shape(x, shape) else self(relax.op.reshape(x, tuple(shape)))

    def transpose(self, x: relax.Expr, axes: Sequence[int]) -> relax.Expr:
        value = constant_array(x)
        if value is not None:
            self.allocate(value.shape, str(value.dtype))
            return constant(value.transpose(axes))
        return x if list(axes) == sorted(axes) else self(relax.op.permute_dims(x, list(axes)))

    def cast(self, x: relax.Expr, dtype: str) -> relax.Expr:
        if dtype_of(x) == dtype:
            return x
        value = constant_array(x)
        if value is not None:
            self.allocate(value.shape, dtype)
            return constant(_cast_array(value, dtype))
        return self(relax.op.astype(x, dtype))

    def scalar(self, value: float | AnySize, like: relax.Expr) -> relax.Expr:
        """Return a number in the data type of ``like``; a constant, unless it is an open size."""
        if isinstance(value, Size):
            return self.cast(self.open_number(value), dtype_of(like))
        return self.literal(value, dtype_of(like))

    def open_number(self, size: AnySize) -> relax.Expr:
        """Return a size as a tensor without axes, of int64."""
        listed = self(relax.op.shape_to_tensor(relax.ShapeExpr([size])))
        return self(relax.op.reshape(listed, ()))

    def literal(self, value: float, dtype: str) -> relax.Expr:
        """Return a number of an operator's definition as a constant of a type.

        One that 16 bits do not hold is a cast, so that what is computed in more bits has them.
        """
        known = relax.const(value, dtype)
        if dtype not in HALVES or constant_array(known) == np.float32(value):
            return known
        return self(relax.op.astype(relax.const(value, "float32"), dtype))

    def along(self, vector: relax.Expr, axis: int, ndim: int) -> relax.Expr:
        """Reshape a vector to ``ndim`` axes such that it broadcasts along all but ``axis``.

        Parameters
        ----------
        vector : relax.Expr
            The vector.
        axis : int
            The axis of its elements; may be negative.
        ndim : int
            The number of axes.
        """
        axis = self.axis(axis, ndim)
        if len(shape_of(vector)) != 1:
            raise self.error(f"needs a vector, but is given a tensor of {list(shape_of(vector))}.")
        return self.reshape(vector, [*[1] * axis, *shape_of(vector), *[1] * (ndim - 1 - axis)])

    def axis(self, axis: int, ndim: int) -> int:
        """Return ``axis`` as a non-negative number."""
        if not -ndim <= axis < ndim:
            raise self.error(f"has axis {axis}, but its argument has {ndim} axes.")
        return axis % ndim

    def full(self, shape: Sequence[AnySize], value: float, dtype: str) -> relax.Expr:
        """Return a tensor with equal elements; a constant, unless sizes are open.

        Parameters
        ----------
        shape : sequence of sizes
        value : float
            The elements.
        dtype : str
            Its data type.
        """
        self.allocate(shape, dtype)
        if is_open(shape):
            return self(relax.op.full(tuple(shape), relax.const(value, dtype), dtype))
        return constant(np.full(hints_of(shape), value, dtype))

    def positions(self, count: AnySize, dtype: str) -> relax.Expr:
        """Return ``[0, 1, ..., count - 1]``."""
        self.allocate([count], dtype)
        if not isinstance(count, int):
            return self(relax.op.arange(0, count.expr, 1, dtype))
        return constant(np.arange(count, dtype=dtype))

    def slice(
        self, x: relax.Expr, axis: int, begin: AnySize, end: AnySize, step: int = 1
    ) -> relax.Expr:
        """Slice ``x`` along an axis.

        Parameters
        ----------
        x : relax.Expr
            The tensor.
        axis : int
            The axis, not negative.
        begin, end, step : size
            As in Python.
        """
        whole = known_equal(begin, 0) and known_equal(end, shape_of(x)[axis])
        if whole and step == 1:
            return x
        value = constant_array(x)
        if value is not None and not is_open((begin, end)):
            self.allocate(value.shape, str(value.dtype))
            return constant(value[(slice(None),) * axis + (slice(begin, end, step),)])
        return self(relax.op.strided_slice(x, [axis], [begin], [end], [step]))


def _cast_array(value: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array in another type; of floats that an integer lacks, as when a network runs.

    That is modulo its range, and 0 of what is not finite.
    """
    if value.dtype.kind not in "fV" or np.dtype(dtype).kind not in "iu":
        return value.astype(dtype)
    finite = np.where(np.isfinite(value), value, value.dtype.type(0))
    with np.errstate(invalid="ignore"):  # more than 64 bits hold
        return finite.astype("uint64" if dtype == "uint64" else "int64").astype(dtype)


def constant(value: np.ndarray) -> relax.Expr:
    """Return an array as a constant tensor."""
    return relax.const(np.ascontiguousarray(value).reshape(value.shape), str(value.dtype))


def is_constant(expr: relax.Expr) -> bool:
    """Return whether an expression is a constant tensor."""
    return isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.value, tvm.runtime.Tensor)


def constant_array(expr: relax.Expr) -> np.ndarray | None:
    """Return the value of a constant tensor; None for any other expression."""
    return expr.value.numpy() if is_constant(expr) else None


def shape_of(x: relax.Expr) -> AnyShape:
    """Return the shape of a tensor, which is always known in a converted function."""
    return tuple(map(size_of, x.ty.shape.values))


def has_shape(x: relax.Expr, shape: Sequence[AnySize]) -> bool:
    """Return whether a tensor is known to have a shape, without an assumption."""
    own = shape_of(x)
    return len(own) == len(shape) and all(map(known_equal, own, shape))


def dtype_of(x: relax.Expr) -> str:
    return str(x.ty.dtype)
