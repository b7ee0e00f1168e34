# SPDX-License-Identifier: Apache-2.0
"""What the rules share: their signature, what they choose from and what they yield."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tvm import relax

from ...graph.operators import Operator
from ...graph.recognise import op_name, static_shape
from ...kernels.kernel import Kernel
from ...kernels.layout import Layout
from ...target import Core
from ..feeds import Feed, Feeder, NoRule


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
    """

    core: Core
    winograd: bool = True


Rule = Callable[[Operator, Feeder, Preferences], Choice]


def program_feeds(op: Operator, feeder: Feeder, layout: Layout) -> tuple[Feed, ...]:
    """The feeds of the operator's program; its result lies in ``layout``."""
    shape = shape_of(op.outputs[0])
    pairs = zip(op.arguments, op.program.arguments, strict=True)
    return tuple(feeder.argument(expr, kind, layout, shape) for expr, kind in pairs)


def shape_of(expr: relax.Expr) -> tuple[int, ...]:
    """The static shape of a tensor; no rule covers anything else."""
    if not isinstance(expr.ty, relax.TensorType) or expr.ty.shape is None:
        raise NoRule
    shape = static_shape(expr, op_name(expr) or "a tensor")
    if math.prod(shape) == 0:
        raise NoRule
    return shape
