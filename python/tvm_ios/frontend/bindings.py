# SPDX-License-Identifier: Apache-2.0
"""The dataflow block that receives a converted network, with its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvm import relax

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
            self._limits.check_tensor(_sizes(tensor), str(tensor.dtype), where)
        if self.is_known(expr):
            self._known.add(var)
            for tensor in tensors:
                self.allocate(_sizes(tensor), str(tensor.dtype), where)
        return var

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
        return True


def _tensors(type_: relax.Type) -> Iterator[relax.TensorType]:
    if isinstance(type_, relax.TupleType):
        for field in type_.fields:
            yield from _tensors(field)
    elif isinstance(type_, relax.TensorType):
        yield type_


def _sizes(tensor: relax.TensorType) -> list[int]:
    return [int(size) for size in tensor.shape.values]
