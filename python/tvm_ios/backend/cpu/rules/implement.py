# SPDX-License-Identifier: Apache-2.0
"""Choice of every operator's implementation, and with it of every value's layout."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tvm import relax

from ....graph.operators import Operator, OperatorGraph
from ....graph.recognise import static_shape
from ...shared.implementation import Implementation
from ...shared.no_rule import NoRule
from ..kernels.convert import unblock_kernel
from ..kernels.kernel import Kernel, convert_output
from ..kernels.layout import PLAIN, Layout
from . import RULES, Choice, CpuLoweredGraph, LoweringConfig
from .bindings import InputBinder, apply_conversions
from .legalize import generic
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
    while True:
        lowered = _implement(graph, plain, config)
        read = {v for i in lowered.opaque for v in graph.operators[i].inputs}
        blocked = read & lowered.layouts.keys()
        if not blocked:
            return lowered
        plain |= blocked


def _implement(
    graph: OperatorGraph, plain: set[relax.Var], config: LoweringConfig
) -> CpuLoweredGraph:
    """Choose a kernel for every operator, in order; the values ``plain`` are row-major."""
    layouts: dict[relax.Var, Layout] = {}
    implementations: list[Implementation[Kernel] | None] = []
    for op in graph.operators:
        choice = _choose(op, InputBinder(layouts), config)
        if choice is None:
            implementations.append(None)
            continue
        implementation, layout = _finish(op, choice, plain)
        implementations.append(implementation)
        layouts.update((v, layout) for v in op.outputs if layout.block)
    return CpuLoweredGraph(graph, tuple(implementations), layouts, config=config)


def _choose(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice | None:
    """Return the tuned kernel of an operator, else its rule's, else TVM's lowering, else None."""
    if op.opaque:
        return None
    if config.database is not None:
        with suppress(NoRule):
            return tuned(op, binder, config.database)
    rule = RULES.get(op.kind)
    if rule is not None:
        try:
            return rule(op, binder, config)
        except NoRule:
            pass
    try:
        return generic(op, binder)
    except NoRule:
        return None


def _finish(
    op: Operator, choice: Choice, plain: set[relax.Var]
) -> tuple[Implementation[Kernel], Layout]:
    """Apply the choice's conversions; a value that leaves the function becomes row-major."""
    kernel, layout = apply_conversions(choice.kernel, choice.bindings), choice.layout
    if layout.block and any(v in plain for v in op.outputs):
        (value,) = op.outputs
        kernel = convert_output(kernel, 0, unblock_kernel(static_shape(value, "a result"), layout))
        layout = PLAIN
    inputs = tuple(binding.value for binding in choice.bindings)
    return Implementation((op.index,), kernel, inputs, op.outputs), layout
