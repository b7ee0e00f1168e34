# SPDX-License-Identifier: Apache-2.0
"""Every operator's candidate kernels on a CUDA device, and the chosen one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx

from ....graph.operators import Operator, OperatorGraph
from ....lowering.implementation import Implementation
from ....lowering.inplace import Slots
from ....lowering.no_rule import NoRule
from ..kernels.kernel import CudaKernel
from ..kernels.schedule import (
    ScheduledFunction,
    plain_schedule,
    schedule,
    scheduled_kernel,
)
from .config import CudaLoweredGraph, CudaLoweringConfig
from .cudnn import cudnn_implementations
from .function import operator_function
from .inplace import concatenation_of, in_place, place_concatenations
from .layouts import channels_last_values

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CudaNetwork:
    """A network with all candidate kernels of each operator.

    Attributes
    ----------
    lowered : CudaLoweredGraph
        The network with the chosen kernels.
    candidates : tuple of tuple of Implementation
        Per operator, the likely fastest first; empty for an operator that is left to TVM's default
        lowering.
    references : tuple of Implementation or None
        Per operator, the plain kernel that candidates are compared with.
    """

    lowered: CudaLoweredGraph
    candidates: tuple[tuple[Implementation[CudaKernel], ...], ...]
    references: tuple[Implementation[CudaKernel] | None, ...]

    def choose(
        self, variants: Mapping[str, str | None], lean: Mapping[str, str | None]
    ) -> CudaNetwork:
        """Return the network with the kernels of these variants, by operator.

        Others keep theirs. The second ones are those that take less of the device.
        """
        chosen = list(self.lowered.implementations)
        for op in self.lowered.graph.operators:
            found = self._candidate(op, variants.get(op.name)) or chosen[op.index]
            if found is not None and op.name in variants:
                second = self._candidate(op, lean.get(op.name))
                kernel = replace(found.kernel, lean=None if second is None else second.kernel)
                chosen[op.index] = replace(found, kernel=kernel)
        pairs = list(zip(chosen, self.lowered.implementations, strict=True))
        if all(_variants(a) == _variants(b) for a, b in pairs):
            return self
        return replace(self, lowered=replace(self.lowered, implementations=tuple(chosen)))

    def _candidate(self, op: Operator, wanted: str | None) -> Implementation[CudaKernel] | None:
        """Return the candidate of an operator by its variant; None if there is none."""
        candidates = self.candidates[op.index]
        found = next((c for c in candidates if c.kernel.variant == wanted), None)
        if found is None and wanted and not all(c.kernel.is_noop for c in candidates):
            _logger.warning("operator %s cannot be computed by %s here", op.name, wanted)
        return found


def implement_in_place(
    graph: OperatorGraph, results: Collection[relax.Var], config: CudaLoweringConfig
) -> CudaNetwork:
    """Implement a network whose concatenations are in place where that is possible.

    If any operator is left to TVM's default lowering, nothing is placed: TVM's memory planning then
    decides where tensors lie. cuDNN's kernels do not write to slices.
    """
    slots: Slots = {}
    if config.cudnn is None:
        slots = place_concatenations(graph, channels_last_values(graph), results)
    network = implement(graph, config, slots)
    return implement(graph, config) if slots and network.lowered.opaque else network


def implement(
    graph: OperatorGraph, config: CudaLoweringConfig, slots: Slots | None = None
) -> CudaNetwork:
    """Find the candidate kernels of each operator, and choose the likely fastest.

    Parameters
    ----------
    graph : OperatorGraph
        The network.
    config : CudaLoweringConfig
        The lowering config.
    slots : mapping of relax.Var to Slot, optional
        Values that are computed in place into concatenations; by default none.
    """
    values = _Values(channels_last_values(graph), slots or {})
    known: dict[object, _Kernels] = {}
    choices = [_choice(op, values, config, known) for op in graph.operators]
    candidates = tuple(tuple(choice.candidates) for choice in choices)
    first = tuple(found[0] if found else None for found in candidates)
    return CudaNetwork(
        CudaLoweredGraph(graph, first, values.layouts, values.slots, config=config),
        candidates,
        tuple(choice.reference for choice in choices),
    )


def _variants(implementation: Implementation[CudaKernel] | None) -> tuple[str | None, ...]:
    if implementation is None:
        return ()
    kernel = implementation.kernel
    return kernel.variant, None if kernel.lean is None else kernel.lean.variant


@dataclass(frozen=True)
class _Values:
    """The layouts of values, and where they lie."""

    layouts: Mapping[relax.Var, str]
    slots: Slots


@dataclass(frozen=True)
class _Kernels:
    """The kernels of a function, and the one that they are compared with."""

    candidates: tuple[CudaKernel, ...]
    reference: CudaKernel | None


@dataclass(frozen=True)
class _Choice:
    """The implementations of an operator, and the one that they are compared with."""

    candidates: Sequence[Implementation[CudaKernel]] = ()
    reference: Implementation[CudaKernel] | None = None


def _choice(
    op: Operator,
    values: _Values,
    config: CudaLoweringConfig,
    known: dict[object, _Kernels],
) -> _Choice:
    """Return all implementations of an operator; equal functions are scheduled once."""
    if op.opaque:
        return _Choice()
    layouts, slots = values.layouts, values.slots
    concatenation = concatenation_of(op, layouts)
    if concatenation is not None and not concatenation.copied(slots):
        return _Choice([in_place(op)], in_place(op))
    try:
        function, inputs = operator_function(op, layouts, slots)
        key = tvm_ffi.StructuralKey(function)
        if key not in known:
            known[key] = _kernels(op.kind, key, function, len(inputs), config)
    except (NoRule, s_tir.ScheduleError, tvm.error.InternalError) as error:
        _logger.info("operator %s (%s) is left to TVM's lowering: %s", op.name, op.kind, error)
        return _Choice()

    def implementation(kernel: CudaKernel) -> Implementation[CudaKernel]:
        return Implementation((op.index,), kernel, inputs, op.outputs)

    found = known[key]
    own = map(implementation, found.candidates)
    reference = None if found.reference is None else implementation(found.reference)
    return _Choice([*own, *_by_cudnn(op, layouts, config)], reference)


def _by_cudnn(
    op: Operator, layouts: Mapping[relax.Var, str], config: CudaLoweringConfig
) -> list[Implementation[CudaKernel]]:
    """Return the implementations by cuDNN, if it may be used."""
    if config.cudnn is None:
        return []
    try:
        return cudnn_implementations(op, layouts, config.precision, config.cudnn)
    except NoRule:
        return []


def _kernels(
    name: str, key: object, function: tirx.PrimFunc, num_inputs: int, config: CudaLoweringConfig
) -> _Kernels:
    """Return the kernels of a function."""

    def kernel(scheduled: ScheduledFunction) -> CudaKernel:
        return scheduled_kernel(name, (scheduled.name, key), scheduled, num_inputs)

    candidates = tuple(
        kernel(scheduled)
        for scheduled in schedule(function, config.target, config.precision, config.limits)
        if not scheduled.workspace  # it belongs to the host's thread, which stages share
    )
    plain = plain_schedule(function, config.target)
    return _Kernels(candidates, None if plain is None else kernel(plain))
