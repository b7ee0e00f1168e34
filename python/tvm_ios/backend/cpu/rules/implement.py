# SPDX-License-Identifier: Apache-2.0
"""Choice of every operator's implementation, and with it of every value's layout."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from tvm import relax

from ....graph.operators import Operator, OperatorGraph
from ....lowering.implementation import Implementation
from ....lowering.no_rule import NoRule
from ....relax_ir.expressions import known_shape, static_shape
from ....sizes.size import is_open
from ....support.progress import counting
from ..isa.storage import Format
from ..kernels.convert import unblock_kernel
from ..kernels.kernel import Kernel, convert_output
from ..kernels.layout import Layout
from ..kernels.winograd.model import variant_name
from . import OPEN_KINDS, RULES, Choice, CpuLoweredGraph, LoweringConfig
from .bindings import InputBinder
from .legalize import generic
from .precision import narrow_values
from .quantized import stored_on_grids
from .tuned import tuned


def implement(
    graph: OperatorGraph, results: Sequence[relax.Var], config: LoweringConfig
) -> CpuLoweredGraph:
    """Choose a kernel for every operator.

    An operator that is left to TVM's default lowering reads row-major tensors. The search for
    kernels finds out that an operator has none only after it has chosen the kernels of its
    producers. It then starts again with the values that such operators read as row-major.

    Parameters
    ----------
    graph : OperatorGraph
        The operators.
    results : sequence of relax.Var
        Values that leave the function; they are row-major.
    config : LoweringConfig
        The lowering config.

    Returns
    -------
    CpuLoweredGraph
        An implementation of every operator, None for those left to TVM's default lowering.
    """
    plain = set(results) | {v for op in graph.operators if op.opaque for v in op.inputs}
    wide = plain | {v for op in graph.operators if op.opaque for v in op.outputs}
    while True:
        grids, able = stored_on_grids(graph, config, wide)
        narrow = narrow_values(graph, config, wide) | grids
        try:
            lowered = replace(_implement(graph, plain, narrow, config, able), able=able)
        except _NotNarrow as error:
            wide |= error.values
            continue
        opaque = [graph.operators[i] for i in lowered.opaque]
        read = {v for op in opaque for v in op.inputs}
        exchanged = read.union(*(op.outputs for op in opaque))
        blocked = read & lowered.layouts.keys()
        if not blocked and not exchanged & narrow.keys():
            return lowered
        plain |= blocked
        wide |= exchanged


class _NotNarrow(Exception):
    """The kernel of an operator cannot read or write some values in their formats."""

    def __init__(self, values: set[relax.Var]) -> None:
        self.values = values


def _implement(
    graph: OperatorGraph,
    plain: set[relax.Var],
    narrow: Mapping[relax.Var, Format],
    config: LoweringConfig,
    able: Collection[str],
) -> CpuLoweredGraph:
    """Choose a kernel for every operator, in order.

    The values ``plain`` are row-major, and those of ``narrow`` are stored in their formats. The
    operators ``able`` to multiply bytes have a choice.
    """
    layouts: dict[relax.Var, Layout] = {}
    implementations: list[Implementation[Kernel] | None] = []
    binder = InputBinder(layouts, narrow, config.core)
    for op in counting(graph.operators, len(graph.operators), "operators"):
        choice = _choose(op, binder, config)
        if choice is None:
            implementations.append(None)
            continue
        if op.name in able and choice.kernel.variant is None:
            choice = replace(choice, kernel=replace(choice.kernel, variant=variant_name(None)))
        implementations.append(_finish(op, choice, plain, binder, narrow))
        if choice.layout.block:
            layouts.update((v, choice.layout) for v in op.outputs if v not in plain)
    return CpuLoweredGraph(graph, tuple(implementations), layouts, narrow=narrow, config=config)


def _choose(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice | None:
    """Return the tuned kernel of an operator, else its rule's, else TVM's lowering, else None."""
    if op.opaque:
        return None
    if config.database is not None:
        with suppress(NoRule):
            return tuned(op, binder, config.database)
    rule = RULES.get(op.kind)
    if rule is not None and (op.kind in OPEN_KINDS or not _is_open(op)):
        try:
            return rule(op, binder, config)
        except NoRule:
            pass
    try:
        return generic(op, binder)
    except NoRule:
        return None


def _is_open(op: Operator) -> bool:
    """Return whether any tensor of an operator has open sizes."""
    shapes = (known_shape(value) for value in (*op.inputs, *op.outputs))
    return any(shape is not None and is_open(shape) for shape in shapes)


def _finish(
    op: Operator,
    choice: Choice,
    plain: set[relax.Var],
    binder: InputBinder,
    narrow: Mapping[relax.Var, Format],
) -> Implementation[Kernel]:
    """Apply the choice's conversions; a value that leaves the function becomes row-major."""
    if not choice.kernel.narrows:
        refused = narrow.keys() & {*_float_inputs(choice), *op.outputs}
        if refused:
            raise _NotNarrow(set(refused))
    kernel, layout = binder.bound(choice.kernel, choice.bindings, op.outputs), choice.layout
    for i, value in enumerate(op.outputs):
        if layout.block and value in plain:
            unblock = unblock_kernel(static_shape(value, "a result"), layout)
            kernel = convert_output(kernel, i, unblock)
    inputs = tuple(binding.value for binding in choice.bindings)
    return Implementation((op.index,), kernel, inputs, op.outputs)


def _float_inputs(choice: Choice) -> set[relax.Var]:
    """Return the values that the kernel itself reads as float32."""
    return {
        binding.value
        for binding, spec in zip(choice.bindings, choice.kernel.inputs, strict=True)
        if spec.dtype == "float32"
        and binding.conversion is None
        and not isinstance(binding.value, np.ndarray)
    }
