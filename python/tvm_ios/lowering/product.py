# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

from ..graph.operators import Operator
from ..ops.epilogue import NOTHING, Epilogue
from ..ops.tensor import TensorSpec
from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_float32
from ..sizes.arithmetic import broadcast, ceil_div
from ..sizes.size import AnySize, known_equal
from .implementation import LoweredGraph
from .kernel import Kernel
from .no_rule import NoRule, shape_of


@dataclass(frozen=True)
class Matmul:
    """``rows`` x ``depth`` times ``depth`` x ``columns``, then ``epilogue``; ``batch`` of them.

    A ``last`` argument of the program has one value a column.

    Attributes
    ----------
    rows, depth, columns : int or Size
    epilogue : Epilogue
    batch : int
    weights : bool
        The right matrix is known at compile time, and packed; it is the same for the whole batch.
    left_batch, right_batch : bool
        Whether the left and the computed right side are a matrix for each of the batch, or one.
    results : tuple of int
        Where several products with weights of one left side are merged, the columns of each, in sum
        ``columns``: each has a result of its own. All arguments of the program are ``last`` then.
    """

    rows: AnySize
    depth: AnySize
    columns: AnySize
    epilogue: Epilogue = NOTHING
    batch: AnySize = 1
    weights: bool = True
    left_batch: bool = True
    right_batch: bool = True
    results: tuple[int, ...] = ()

    @property
    def parts(self) -> tuple[AnySize, ...]:
        """The columns of each result."""
        return self.results or (self.columns,)

    @property
    def left(self) -> TensorSpec:
        return TensorSpec((self.batch if self.left_batch else 1, self.rows, self.depth))

    @property
    def right(self) -> TensorSpec:
        return TensorSpec((self.batch if self.right_batch else 1, self.depth, self.columns))

    def packed(self, lanes: int) -> TensorSpec:
        """Pack the right side with ``lanes`` columns together."""
        shape = (sum(ceil_div(part, lanes) for part in self.parts), self.depth, lanes)
        return TensorSpec(shape if self.weights else (*self.right.shape[:1], *shape))


def product_of(op: Operator) -> Matmul:
    """Return the operator as a batch of equal matrix products.

    A right side without a batch meets all matrices on the left as the rows of one.

    Raises
    ------
    NoRule
        When it is of another type than float32, or its batches do not meet one by one.
    """
    if not all(map(is_float32, op.call.args)):
        raise NoRule
    left, right = (shape_of(argument) for argument in op.call.args)
    matrices, rows = (left[:-2], left[-2]) if len(left) > 1 else ((), 1)
    depth, columns = right[-2:] if len(right) > 1 else (right[0], 1)
    if known_equal(math.prod(right[:-2]), 1):
        weights = constant_array(op.call.args[1]) is not None
        rows *= math.prod(matrices)
        return Matmul(rows, depth, columns, op.epilogue, weights=weights)
    try:
        batch = math.prod(broadcast(matrices, right[:-2]))
    except ValueError:  # sizes are open that are equal, or one of them is 1, when the network runs
        raise NoRule from None
    sizes = [math.prod(matrices), math.prod(right[:-2])]
    single = [known_equal(size, 1) for size in sizes]
    if not all(s or known_equal(n, batch) for s, n in zip(single, sizes, strict=True)):
        raise NoRule
    return Matmul(rows, depth, columns, op.epilogue, batch, False, not single[0], not single[1])


def shared_left_side(_lowered: LoweredGraph[Kernel], op: Operator) -> Hashable | None:
    """Return what products have in common that read the same matrix and may become one."""
    if op.kind != "matmul":
        return None
    try:
        product = product_of(op)
    except NoRule:
        return None
    left, right = op.call.args
    vector = len(shape_of(right)) == 1  # its result has no columns
    constants = all(constant_array(argument) is not None for argument in op.arguments)
    columnwise = all(kind == "last" for kind in op.epilogue.arguments)
    if vector or not (product.weights and constants and columnwise):
        return None
    return (left, replace(product, columns=0))
