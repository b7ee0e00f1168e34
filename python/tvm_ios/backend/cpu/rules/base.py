# SPDX-License-Identifier: Apache-2.0
"""The interface of the rules: their signature, their inputs and their result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ....target import TYPICAL, Core, Transfers
from ...shared.no_rule import NoRule, shape_of
from ..kernels.compose import with_shapes
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN, Layout
from .feeds import Feed, Feeder


@dataclass(frozen=True)
class Choice:
    """A kernel with its input bindings and the layout of its result."""

    kernel: Kernel
    feeds: tuple[Feed, ...]
    layout: Layout


@dataclass(frozen=True)
class Preferences:
    """The lowering config: everything but the operators that the choice of kernels depends on.

    Attributes
    ----------
    core : Core
        The core that kernels are generated for.
    winograd : bool
        Whether convolutions may use Winograd's minimal filtering, which rounds differently.
    workers : int
        Workers that share the tiles of a kernel.
    database : tvm.s_tir.meta_schedule.database.Database or None
        Tuned kernels; they take precedence over the rules' kernels.
    transfers : Transfers
        Machine balance, for large weights.
    variants : mapping of str to str
        Which of its kernels an operator gets, by the operator's name, whatever the rules prefer.
    """

    core: Core
    winograd: bool = True
    workers: int = 1
    database: Any | None = None
    transfers: Transfers = TYPICAL
    variants: Mapping[str, str] = field(default_factory=dict)


Rule = Callable[[Operator, Feeder, Preferences], Choice]


def first_of(*rules: Rule) -> Rule:
    """Return a rule that applies the first of some rules that covers the operator."""

    def rule(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
        for candidate in rules[:-1]:
            with suppress(NoRule):
                return candidate(op, feeder, preferences)
        return rules[-1](op, feeder, preferences)

    return rule


def row_major(kernel: Kernel, feeds: tuple[Feed, ...], op: Operator) -> Choice:
    """Return the choice of a kernel that views row-major tensors in its own shapes.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    feeds : tuple of Feed
        Its input bindings.
    op : Operator
        The operator that it computes.

    Returns
    -------
    Choice
        The kernel on tensors in the operator's shapes, with a row-major result.
    """
    return Choice(on_row_major(kernel, feeds, op.outputs), feeds, PLAIN)


def on_row_major(kernel: Kernel, feeds: tuple[Feed, ...], outputs: Sequence[relax.Var]) -> Kernel:
    """Return a kernel whose row-major tensors have the shapes of its feeds and of ``outputs``.

    Parameters
    ----------
    kernel : Kernel
        A kernel that views row-major tensors in its own shapes.
    feeds : tuple of Feed
        Its input bindings.
    outputs : sequence of relax.Var
        Its results.

    Returns
    -------
    Kernel
        The same kernel on tensors in the operators' shapes.
    """
    inputs = [_fed_shape(feed) for feed in feeds]
    return with_shapes(kernel, inputs, [shape_of(value) for value in outputs])


def _fed_shape(feed: Feed) -> tuple[int, ...]:
    """Return the shape in memory of a feed's tensor after its conversion."""
    if feed.conversion is not None:
        return feed.conversion.outputs[0].shape
    return feed.value.shape if isinstance(feed.value, np.ndarray) else shape_of(feed.value)


def program_feeds(op: Operator, feeder: Feeder, layout: Layout) -> tuple[Feed, ...]:
    """Return the input bindings of the operator's epilogue, for a result in ``layout``.

    Parameters
    ----------
    op : Operator
        The operator.
    feeder : Feeder
        Makes the bindings.
    layout : Layout
        Layout of the operator's result.

    Returns
    -------
    tuple of Feed
        One per tensor argument of the epilogue.
    """
    shape = shape_of(op.outputs[0])
    pairs = zip(op.arguments, op.program.arguments, strict=True)
    return tuple(feeder.argument(expr, kind, layout, shape) for expr, kind in pairs)
