# SPDX-License-Identifier: Apache-2.0
"""Bind elementwise operations right before the only operation that reads them.

The operators of a graph grow in the order of the bindings. A gate of a recurrent cell that is bound
early, ``sigmoid(o)`` of ``sigmoid(o) * tanh(c)``, would be an operator of its own, because ``c`` is
not there yet. Bound late, it is computed where it is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from ..graph.recognise import elementwise
from ..graph.region import Uses
from ..relax_ir.expressions import known_shape


def bind_late(_mod: tvm.IRModule, function: relax.Function) -> relax.Function:
    """Return a function that binds elementwise operations where another one reads them.

    Those that can be computed with what comes before them stay there: an operation after a
    convolution that nothing else reads is a part of it.
    """
    blocks = list(function.body.blocks)
    bindings = [binding for block in blocks for binding in block.bindings]
    late = _Late(bindings, Uses.of(bindings, function.body.body))
    moved: list[relax.BindingBlock] = []
    begin = 0
    for block in blocks:
        end = begin + len(block.bindings)
        if isinstance(block, relax.DataflowBlock):
            block = relax.DataflowBlock([bindings[i] for i in late.ordered(begin, end)])
        moved.append(block)
        begin = end
    body = relax.SeqExpr(moved, function.body.body)
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)


class _Late:
    """Which bindings can wait for their reader."""

    def __init__(self, bindings: list[relax.Binding], uses: Uses) -> None:
        self._bindings, self._uses = bindings, uses
        self._waits: list[bool] = []
        for i in range(len(bindings)):
            self._waits.append(self._can_wait(i))

    def ordered(self, begin: int, end: int) -> Iterator[int]:
        """Yield the positions of a block's bindings; each follows those that wait for it."""
        for i in range(begin, end):
            if not self._waits[i] or self._reader(i) not in range(begin, end):
                yield from self._with_waiting(i, begin)

    def _with_waiting(self, i: int, begin: int) -> Iterator[int]:
        for variable in self._uses.reads(i):
            place = self._uses.definition(variable)
            if place is not None and place >= begin and self._waits[place]:
                yield from self._with_waiting(place, begin)
        yield i

    def _can_wait(self, i: int) -> bool:
        """Return whether a binding is elementwise, for an elementwise reader, and free."""
        binding = self._bindings[i]
        reader = self._reader(i)
        if reader is None or not isinstance(binding, relax.VarBinding):
            return False
        if elementwise(binding.value) is None or elementwise(self._bindings[reader].value) is None:
            return False
        if known_shape(binding.var) != known_shape(self._bindings[reader].var):
            return False  # it cannot be computed there, and has to be known before
        return all(map(self._is_free, self._uses.reads(i)))

    def _reader(self, i: int) -> int | None:
        """Return the only binding that reads a value."""
        readers = self._uses.readers(self._bindings[i].var)
        return readers[0] if len(readers) == 1 else None

    def _is_free(self, variable: relax.Var) -> bool:
        """Return whether a value is there anyway, or is computed by what waits."""
        place = self._uses.definition(variable)
        if place is None or self._waits[place] or len(self._uses.readers(variable)) > 1:
            return True
        return isinstance(self._bindings[place].value, relax.TupleGetItem)
