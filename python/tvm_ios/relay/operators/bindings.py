# SPDX-License-Identifier: Apache-2.0
"""The dataflow block that receives a converted network, with its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import tvm
from tvm import relax

from ...support.errors import ExpansionError
from ..budget import LARGEST_TENSOR, MAX_RANK, Budget


class Bindings:
    """A writer of bindings that counts them before anything is allocated for them.

    A value that is computed from constants alone becomes a constant later, and counts as one.

    Parameters
    ----------
    builder : relax.BlockBuilder
        A builder inside the dataflow block that receives the bindings.
    budget : Budget
        The limits.
    """

    def __init__(self, builder: relax.BlockBuilder, budget: Budget) -> None:
        self._builder = builder
        self._budget = budget
        self._known: set[relax.Var] = set()  # independent of the network's inputs

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
        ExpansionError
            If the network becomes too large.
        """
        self.expect(1, where)
        var = self._builder.emit(expr)
        tensors = list(_tensors(var.ty))
        for tensor in tensors:
            check_tensor(_sizes(tensor), str(tensor.dtype), where)
        if self._is_known(expr):
            self._known.add(var)
            for tensor in tensors:
                self.allocate(_sizes(tensor), str(tensor.dtype), where)
        return var

    def expect(self, count: int, where: str) -> None:
        """Count bindings that will be added, before they are listed.

        Raises
        ------
        ExpansionError
            If they are too many.
        """
        self._budget.spend("operators", count, where)

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
        ExpansionError
            If it is too large.
        """
        self._budget.spend("bytes", _bytes(shape, dtype), where)

    def _is_known(self, expr: relax.Expr) -> bool:
        """Return whether ``expr`` is computed from constants alone."""
        if isinstance(expr, relax.Var):
            return expr in self._known
        if isinstance(expr, relax.Tuple):
            return all(map(self._is_known, expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            return self._is_known(expr.tuple_value)
        if isinstance(expr, relax.Call):
            return all(map(self._is_known, expr.args))
        return True


def check_tensor(shape: Sequence[int], dtype: str, where: str) -> None:
    """Check that a tensor can exist.

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
    ExpansionError
        If it has too many axes, or exceeds the address space.
    """
    if len(shape) > MAX_RANK:
        raise ExpansionError(f"{where} has a tensor of {len(shape)} axes, above {MAX_RANK}.")
    # If one size is 0, the tensor is empty but the others may still overflow.
    if _bytes([max(size, 1) for size in shape], dtype) > LARGEST_TENSOR:
        raise ExpansionError(f"{where} has a tensor of {list(shape)}, which no machine can hold.")


def _bytes(shape: Sequence[int], dtype: str) -> int:
    return math.prod(shape) * ((tvm.DataType(dtype).bits + 7) // 8)


def _tensors(type_: relax.Type) -> Iterator[relax.TensorType]:
    if isinstance(type_, relax.TupleType):
        for field in type_.fields:
            yield from _tensors(field)
    elif isinstance(type_, relax.TensorType):
        yield type_


def _sizes(tensor: relax.TensorType) -> list[int]:
    return [int(size) for size in tensor.shape.values]
