# SPDX-License-Identifier: Apache-2.0
"""The dataflow block that receives a converted network, with its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tvm import relax

from ..sizes.arithmetic import require_least
from ..sizes.expressions import is_computable
from ..sizes.ratio import SingleRatio
from ..sizes.size import Size, hint_of, is_open
from ..sizes.size import size_of as size_of_expr
from ..support.errors import ModelError
from .limits import Limits, size_of


class Bindings:
    """A writer of bindings that counts them before anything is allocated for them.

    A value that is computed from constants alone becomes a constant later, and counts as one.

    Parameters
    ----------
    builder : relax.BlockBuilder
        A builder inside the dataflow block that receives the bindings.
    limits : Limits
        What may be made.

    Attributes
    ----------
    builder : relax.BlockBuilder
    """

    def __init__(self, builder: relax.BlockBuilder, limits: Limits) -> None:
        self.builder = builder
        self._limits = limits
        self._known: set[relax.Var] = set()  # independent of the network's inputs
        self._sizes: dict[relax.Var, np.ndarray] = {}

    def add(self, expr: relax.Expr, where: str) -> relax.Var:
        """Bind ``expr`` to a variable.

        Parameters
        ----------
        expr : relax.Expr
            The expression.
        where : str
            The cause, as the subject of a sentence.

        Raises
        ------
        ModelError
            If the network becomes too large.
        """
        self.expect(1, where)
        var = self.builder.emit(expr)
        tensors = list(_tensors(var.ty))
        for tensor in tensors:
            _require_elements(tensor, where)
            self._limits.check_tensor(_sizes(tensor), str(tensor.dtype), where)
        if self.is_known(expr):
            self._known.add(var)
            for tensor in tensors:
                self.allocate(_sizes(tensor), str(tensor.dtype), where)
        return var

    def add_sizes(self, sizes: np.ndarray, dtype: str, where: str) -> relax.Var:
        """Bind numbers, some of which are open sizes, to a variable.

        Parameters
        ----------
        sizes : numpy.ndarray of object
            Sizes and integers, or fractions of them and other numbers.
        dtype : str
        where : str
        """
        flat = list(sizes.reshape(-1))
        fractions = any(isinstance(number, float | SingleRatio) for number in flat)
        if fractions:
            value = self._fractions(flat, dtype, where)
        else:
            value = relax.op.shape_to_tensor(relax.ShapeExpr(flat))
        if sizes.ndim != 1:
            value = relax.op.reshape(self.add(value, where), sizes.shape)
        if dtype != "int64" and not fractions:
            value = relax.op.astype(self.add(value, where), dtype)
        variable = self.add(value, where)
        self._sizes[variable] = sizes
        return variable

    def _fractions(self, numbers: Sequence[Any], dtype: str, where: str) -> relax.Call:
        """Return fractions of sizes as a list."""
        ratios = [n if isinstance(n, SingleRatio) else SingleRatio(0) for n in numbers]
        above = relax.op.shape_to_tensor(relax.ShapeExpr([ratio.above for ratio in ratios]))
        floats = self.add(relax.op.astype(self.add(above, where), dtype), where)
        below = relax.const(np.array([ratio.below for ratio in ratios], dtype))
        divided = self.add(relax.op.divide(floats, below), where)
        known = [0.0 if isinstance(n, SingleRatio) else float(n) for n in numbers]
        return relax.op.add(divided, relax.const(np.array(known, dtype)))

    def sizes_in(self, x: relax.Expr) -> np.ndarray | None:
        """Return the numbers of :meth:`add_sizes`; None for any other expression."""
        return self._sizes.get(x) if isinstance(x, relax.Var) else None

    def expect(self, count: int, where: str) -> None:
        """Count bindings that will be added, before they are listed.

        Raises
        ------
        ModelError
            If they are too many.
        """
        self._limits.spend("operators", count, where)

    def allocate(self, shape: Sequence[int], dtype: str, where: str) -> None:
        """Count a constant that will be computed.

        Parameters
        ----------
        shape : sequence of int
            Its shape.
        dtype : str
            Its data type.
        where : str
            The cause, as the subject of a sentence.

        Raises
        ------
        ModelError
            If it is too large.
        """
        self._limits.spend("bytes", size_of(shape, dtype), where)

    def inputs_of(self, expr: relax.Expr) -> list[str]:
        """Return the names of the network's inputs that ``expr`` is computed from.

        Parameters
        ----------
        expr : relax.Expr
            An expression of variables that are bound, or are inputs.
        """
        names: list[str] = []
        seen: set[relax.Var] = set()
        waiting = [expr]
        while waiting:
            for var in relax.analysis.free_vars(waiting.pop()):
                if var in seen:
                    continue
                seen.add(var)
                value = self.builder.lookup_binding(var)
                if value is None:
                    names.append(var.name)
                else:
                    waiting.append(value)
        return names

    def is_known(self, expr: relax.Expr) -> bool:
        """Return whether ``expr`` is computed from constants alone."""
        if isinstance(expr, relax.Var):
            return expr in self._known
        if isinstance(expr, relax.Tuple):
            return all(map(self.is_known, expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            return self.is_known(expr.tuple_value)
        if isinstance(expr, relax.Call):
            return all(map(self.is_known, expr.args))
        if isinstance(expr, relax.ShapeExpr):
            return not is_open(map(size_of_expr, expr.values))
        return True


def _tensors(type_: relax.Type) -> Iterator[relax.TensorType]:
    if isinstance(type_, relax.TupleType):
        for field in type_.fields:
            yield from _tensors(field)
    elif isinstance(type_, relax.TensorType):
        yield type_


def _require_elements(tensor: relax.TensorType, where: str) -> None:
    """Assume that open sizes, which are computed of others, are at least 1.

    Raises
    ------
    ModelError
        If one cannot be, or the shape is not known.
    """
    if tensor.shape is None:
        raise ModelError(f"{where} has inputs of open sizes that do not fit; give their sizes.")
    for size in map(size_of_expr, tensor.shape.values):
        if isinstance(size, Size) and not is_computable(size.expr):
            raise ModelError(f"{where} has an axis of {size} elements, which is not supported.")
        if not require_least(size, 1) and not isinstance(size, int):
            raise ModelError(f"{where} has an axis of {size} elements, which is never 1 or more.")


def _sizes(tensor: relax.TensorType) -> list[int]:
    return [hint_of(size_of_expr(size)) for size in tensor.shape.values]
