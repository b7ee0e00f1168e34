# SPDX-License-Identifier: Apache-2.0
"""Reshapes in place: a reshaped row-major tensor is the tensor that was reshaped."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from tvm import relax

from ....graph.operators import Operator
from ....graph.rearrange import moves
from ....lowering.implementation import Implementation, Slot
from ....lowering.no_rule import NoRule, shape_of
from ....ops.tensor import TensorSpec
from ..kernels.kernel import Kernel
from .base import CpuLoweredGraph
from .bindings import InputBinding
from .strided import movement_of


def place_views(lowered: CpuLoweredGraph, results: Collection[relax.Var]) -> CpuLoweredGraph:
    """Remove the copies that reshapes do not need.

    The operand must be computed here, and the result must not leave the function, since the tensors
    of its inputs and results belong to the caller. If any operator is left to TVM's default
    lowering, nothing is placed: TVM's memory planning then decides where tensors lie.
    """
    if lowered.opaque:
        return lowered
    computed = {v for op in lowered.graph.operators for v in op.outputs} - lowered.layouts.keys()
    implementations, slots = list(lowered.implementations), dict(lowered.slots)
    for op in lowered.graph.operators:
        if not _only_reshapes(op) or not {op.call.args[0], *op.outputs} <= computed:
            continue
        (result,), source = op.outputs, op.call.args[0]
        alike = lowered.narrow.get(source) == lowered.narrow.get(result)
        if result not in results and alike:
            implementations[op.index] = _view(lowered, op, source, result)
            slots[result] = Slot(source, 0)
    return replace(lowered, implementations=tuple(implementations), slots=slots)


def _only_reshapes(op: Operator) -> bool:
    """Return whether all elements keep their places."""
    if op.anchor is None or op.epilogue.steps or not moves(op.anchor) or len(op.outputs) != 1:
        return False
    with suppress(NoRule):
        return movement_of(op).only_reshapes
    return False


def _view(
    lowered: CpuLoweredGraph, op: Operator, source: relax.Var, result: relax.Var
) -> Implementation[Kernel]:
    specs = [TensorSpec(shape_of(value)) for value in (source, result)]
    kernel = Kernel(
        name="view",
        key=("view", *specs),
        inputs=(specs[0],),
        outputs=(specs[1],),
        phases=(),
        narrows=True,
    )
    return lowered.implementation((op.index,), kernel, (InputBinding(source),), (result,))
