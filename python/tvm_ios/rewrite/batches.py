# SPDX-License-Identifier: Apache-2.0
"""Products and transpositions of batches that are merged to one axis before, and divided after.

PyTorch decomposes those of tensors of four axes so, with broadcasts that change nothing. What comes
before and after is then hidden behind reshapes.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.dpl import wildcard

from ..relax_ir.expressions import known_shape
from .compositions import raise_by
from .matching import Matcher, operation
from .permuted import axes_of


def keep_batches(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Multiply and transpose batches of matrices as they are instead of merging their axes."""
    return raise_by({"reshape": (_MergedProduct(), _MergedTransposition())}, mod, func)


class _MergedProduct:
    """The pattern of a product of two reshaped tensors that is reshaped back."""

    def __init__(self) -> None:
        self._sides = [operation("reshape", wildcard(), wildcard()) for _ in range(2)]
        self._pattern = operation("reshape", operation("matmul", *self._sides), wildcard())

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return the product of the tensors if all of their matrices and the result's agree."""
        match = matcher.match(self._pattern, call)
        if match is None:
            return None
        left, right = (match.call(side).args[0] for side in self._sides)
        a, b, result = (known_shape(x) for x in (left, right, call))
        merged = [known_shape(match.call(side)) for side in self._sides]
        if a is None or b is None or a[:-2] != b[:-2] or result != (*a[:-1], b[-1]):
            return None
        if any(m is None or m[-2:] != s[-2:] for m, s in zip(merged, (a, b), strict=True)):
            return None
        return relax.op.matmul(left, right)


class _MergedTransposition:
    """The pattern of transposed matrices of a reshaped tensor that is reshaped back."""

    def __init__(self) -> None:
        self._merged = operation("reshape", wildcard(), wildcard())
        self._transposed = operation("permute_dims", self._merged)
        self._pattern = operation("reshape", self._transposed, wildcard())

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return the tensor with its matrices transposed."""
        match = matcher.match(self._pattern, call)
        if match is None:
            return None
        data = match.call(self._merged).args[0]
        shape, merged, result = (known_shape(x) for x in (data, match.call(self._merged), call))
        if shape is None or merged is None or len(shape) < 3 or len(merged) != 3:
            return None
        transposed = (*shape[:-2], shape[-1], shape[-2])
        if axes_of(match.call(self._transposed)) != (0, 2, 1) or merged[-2:] != shape[-2:]:
            return None
        rank = len(shape)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        return relax.op.permute_dims(data, swapped) if result == transposed else None
