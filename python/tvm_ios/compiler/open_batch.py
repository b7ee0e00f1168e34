# SPDX-License-Identifier: Apache-2.0
"""The batch of a network whose dimensions are open: whether its rows depend on each other."""

from __future__ import annotations

from tvm import relax

from ..relax_ir.expressions import static_shape
from ..sizes.examples import value_of
from ..sizes.size import AnyShape, Size
from ..sizes.size import is_open as has_open
from .dependence.servable import find_servable
from .scheduler import Scheduler

_BATCHES = (1, 3)


def is_open(scheduler: Scheduler) -> bool:
    """Return whether inputs of a network have open dimensions."""
    return any(map(has_open, _shapes(scheduler)))


def has_batch(scheduler: Scheduler) -> bool:
    """Return whether the first dimension of all inputs is a batch of rows, apart from each other.

    That is found out for sizes that are assumed of the other dimensions: rows depend on each other
    by what is computed, not by how long they are.
    """
    shapes = _shapes(scheduler)
    batch = shapes[0][0] if shapes and shapes[0] else None
    if not isinstance(batch, Size) or batch.expr not in batch.owner.hints:
        return False
    if not all(shape and shape[0] == batch for shape in shapes):
        return False
    examples = [{**batch.owner.hints, batch.expr: size} for size in _BATCHES]
    if not all(value_of(c, sizes) for sizes in examples for c in batch.owner.conditions):
        return False  # the network requires other batches
    name = scheduler.graph.function
    networks = [
        (relax.transform.BindSymbolicVars(sizes, name)(scheduler.prepared), name)
        for sizes in examples
    ]
    return find_servable(networks).splits


def _shapes(scheduler: Scheduler) -> list[AnyShape]:
    function = scheduler.prepared[scheduler.graph.function]
    return [static_shape(parameter, "an input") for parameter in function.params]
