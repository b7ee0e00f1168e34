# SPDX-License-Identifier: Apache-2.0
"""Permutations before a product, which move into its constant weights.

Where channels come last, the first dense layer of a network reads all channels of a pixel, then
those of the next one. Its weights take any other order.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.dpl import is_const, wildcard

from ..relax_ir.constants import held_array
from ..relax_ir.expressions import held_shape
from ..sizes.size import is_open
from .compositions import raise_by
from .matching import Matcher, operation
from .permuted import axes_of, inverse


def reorder_weights(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Permute the rows of weights instead of images whose pixels they are multiplied by."""
    return raise_by({"matmul": (_FlattenedProduct(),)}, mod, func)


class _FlattenedProduct:
    """The pattern of a product of permuted images, each of which becomes a row."""

    def __init__(self) -> None:
        self._images, self._weights = operation("permute_dims", wildcard()), is_const()
        self._rows = operation("reshape", self._images, wildcard())
        self._pattern = operation("matmul", self._rows, self._weights)

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return the product of the images as they are if the permutation keeps the first axis."""
        match = matcher.match(self._pattern, call)
        if match is None:
            return None
        images, weights = match.call(self._images), held_array(match.call(self._weights))
        axes, shape = axes_of(images), held_shape(images)
        rows = held_shape(match.call(self._rows))
        if (
            is_open(shape[1:])
            or axes[0] != 0
            or len(rows) != 2
            or rows[0] != shape[0]
            or weights.ndim != 2
        ):
            return None
        order = (*(axis - 1 for axis in inverse(axes)[1:]), len(shape) - 1)
        own = weights.reshape(*shape[1:], -1).transpose(order).reshape(weights.shape)
        flat = relax.op.reshape(images.args[0], rows)
        return relax.op.matmul(flat, relax.const(own, str(weights.dtype)))
