# SPDX-License-Identifier: Apache-2.0
"""Products of batches that are merged to one axis before, and divided after.

PyTorch decomposes a product of tensors of four axes so, with broadcasts that change nothing. What
stands before and after it is then hidden behind reshapes.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.dpl import wildcard

from ..relax_ir.expressions import known_shape
from .compositions import raise_by
from .matching import Matcher, operation


def keep_batches(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Multiply batches of matrices as they are instead of merging their axes to one."""
    return raise_by({"reshape": (_MergedProduct(),)}, mod, func)


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
