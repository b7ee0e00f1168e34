# SPDX-License-Identifier: Apache-2.0
"""What the rules share: their signature, what they choose from and what they yield."""

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
    """A kernel, what feeds it, and how its result lies in memory."""

    kernel: Kernel
    feeds: tuple[Feed, ...]
    layout: Layout


@dataclass(frozen=True)
class Preferences:
    """What the choice of kernels depends on besides the operators.

    Attributes
    ----------
    core : Core
        What kernels are generated for.
    winograd : bool
        Whether convolutions may be computed by Winograd's minimal filtering, which rounds
        differently.
    workers : int
        Among how many the tiles of a kernel are divided.
    database : tvm.s_tir.meta_schedule.database.Database or None
        Kernels that were tuned; they are preferred to what the rules have.
    transfers : Transfers
        How far away large weights are.
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
    """The first of some rules that covers an operator."""

    def rule(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
        for candidate in rules[:-1]:
            with suppress(NoRule):
                return candidate(op, feeder, preferences)
        return rules[-1](op, feeder, preferences)

    return rule


def row_major(kernel: Kernel, feeds: tuple[Feed, ...], op: Operator) -> Choice:
    """The choice of a kernel that sees row-major tensors in shapes of its own."""
    return Choice(on_row_major(kernel, feeds, op.outputs), feeds, PLAIN)


def on_row_major(kernel: Kernel, feeds: tuple[Feed, ...], outputs: Sequence[relax.Var]) -> Kernel:
    """A kernel that sees row-major tensors in shapes of its own, on those of ``outputs``."""
    inputs = [_fed_shape(feed) for feed in feeds]
    return with_shapes(kernel, inputs, [shape_of(value) for value in outputs])


def _fed_shape(feed: Feed) -> tuple[int, ...]:
    """The shape in which a feed's tensor lies in memory after its conversion."""
    if feed.conversion is not None:
        return feed.conversion.outputs[0].shape
    return feed.value.shape if isinstance(feed.value, np.ndarray) else shape_of(feed.value)


def program_feeds(op: Operator, feeder: Feeder, layout: Layout) -> tuple[Feed, ...]:
    """The feeds of the operator's program; its result lies in ``layout``."""
    shape = shape_of(op.outputs[0])
    pairs = zip(op.arguments, op.program.arguments, strict=True)
    return tuple(feeder.argument(expr, kind, layout, shape) for expr, kind in pairs)
