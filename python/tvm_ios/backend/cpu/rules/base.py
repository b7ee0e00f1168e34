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
from ....lowering.implementation import Implementation, LoweredGraph
from ....lowering.no_rule import NoRule, shape_of
from ....relax_ir.expressions import known_shape
from ....schedule.options import Precision
from ....sizes.size import is_open
from ..core import TYPICAL, Core, MachineBalance
from ..isa.storage import Format
from ..kernels.compose import with_shapes
from ..kernels.factors import Factors
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN, Layout
from .bindings import InputBinder, InputBinding


@dataclass(frozen=True)
class Choice:
    """A kernel with its input bindings and the layout of its result."""

    kernel: Kernel
    bindings: tuple[InputBinding, ...]
    layout: Layout


@dataclass(frozen=True)
class LoweringConfig:
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
    balance : MachineBalance
        Machine balance, for large weights.
    variants : mapping of str to str
        Which of its kernels an operator gets, by the operator's name, whatever the rules prefer.
    precision : str
        ``fp32``, or ``bf16``: operators may multiply bfloat16, see :mod:`.precision`.
    int8 : bool
        Whether convolutions of quantised networks multiply bytes, see :mod:`.quantized`.
    """

    core: Core
    winograd: bool = True
    workers: int = 1
    database: Any | None = None
    balance: MachineBalance = TYPICAL
    variants: Mapping[str, str] = field(default_factory=dict)
    precision: Precision = "fp32"
    int8: bool = False


@dataclass(frozen=True)
class CpuLoweredGraph(LoweredGraph[Kernel]):
    """A graph with the kernels of a CPU.

    Attributes
    ----------
    layouts : mapping of relax.Var to Layout
    narrow : mapping of relax.Var to Format
        The values that are not stored as float32.
    able : mapping of str to Factors
        The names of the operators that can multiply bytes, with what they multiply them by.
    config : LoweringConfig
    """

    layouts: Mapping[relax.Var, Layout] = field(default_factory=dict)
    narrow: Mapping[relax.Var, Format] = field(default_factory=dict)
    able: Mapping[str, Factors] = field(default_factory=dict)
    config: LoweringConfig = field(kw_only=True)

    @property
    def binder(self) -> InputBinder:
        """Makes input bindings of the graph's values."""
        return InputBinder(self.layouts, self.narrow, self.config.core)

    def implementation(
        self,
        operators: tuple[int, ...],
        kernel: Kernel,
        bindings: tuple[InputBinding, ...],
        outputs: tuple[relax.Var, ...],
    ) -> Implementation[Kernel]:
        """Return the implementation of operators by a kernel, see :meth:`.InputBinder.bound`."""
        kernel = self.binder.bound(kernel, bindings, outputs)
        inputs = tuple(binding.value for binding in bindings)
        return Implementation(operators, kernel, inputs, outputs)


Rule = Callable[[Operator, InputBinder, LoweringConfig], Choice]
"""Returns the kernel of an operator with its epilogue, given what makes its input bindings and the
lowering config. It raises NoRule if it does not cover the operator."""


def first_of(*rules: Rule) -> Rule:
    """Return a rule that applies the first of some rules that covers the operator."""

    def rule(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
        for candidate in rules[:-1]:
            with suppress(NoRule):
                return candidate(op, binder, config)
        return rules[-1](op, binder, config)

    return rule


def of_channels(rule: Rule) -> Rule:
    """Return a rule that covers feature maps alone whose numbers of channels are known."""

    def covered(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
        shapes = (known_shape(value) for value in (*op.inputs, *op.outputs))
        if any(shape is not None and len(shape) == 4 and is_open(shape[1:2]) for shape in shapes):
            raise NoRule
        return rule(op, binder, config)

    return covered


def row_major(kernel: Kernel, bindings: tuple[InputBinding, ...], op: Operator) -> Choice:
    """Return the choice of a kernel that views row-major tensors in its own shapes.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    bindings : tuple of InputBinding
        Its input bindings.
    op : Operator
        The operator that it computes.

    Returns
    -------
    Choice
        The kernel on tensors in the operator's shapes, with a row-major result.
    """
    return Choice(on_row_major(kernel, bindings, op.outputs), bindings, PLAIN)


def on_row_major(
    kernel: Kernel, bindings: tuple[InputBinding, ...], outputs: Sequence[relax.Var]
) -> Kernel:
    """Return a kernel whose row-major tensors have the shapes of its bindings and ``outputs``.

    Parameters
    ----------
    kernel : Kernel
        A kernel that views row-major tensors in its own shapes.
    bindings : tuple of InputBinding
        Its input bindings.
    outputs : sequence of relax.Var
        Its results.

    Returns
    -------
    Kernel
        The same kernel on tensors in the operators' shapes.
    """
    inputs = [_fed_shape(binding) for binding in bindings]
    return with_shapes(kernel, inputs, [shape_of(value) for value in outputs])


def _fed_shape(binding: InputBinding) -> tuple[int, ...]:
    """Return the shape in memory of a feed's tensor after its conversion."""
    if binding.conversion is not None:
        return binding.conversion.outputs[0].shape
    return binding.value.shape if isinstance(binding.value, np.ndarray) else shape_of(binding.value)


def epilogue_inputs(op: Operator, binder: InputBinder, layout: Layout) -> tuple[InputBinding, ...]:
    """Return the input bindings of the operator's epilogue, for a result in ``layout``.

    Parameters
    ----------
    op : Operator
        The operator.
    binder : InputBinder
        Makes the bindings.
    layout : Layout
        Layout of the operator's result.

    Returns
    -------
    tuple of InputBinding
        One per tensor argument of the epilogue.
    """
    shape = shape_of(op.outputs[0])
    pairs = zip(op.arguments, op.epilogue.arguments, strict=True)
    return tuple(binder.argument(expr, kind, layout, shape) for expr, kind in pairs)
