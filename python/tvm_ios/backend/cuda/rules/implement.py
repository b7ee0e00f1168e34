# SPDX-License-Identifier: Apache-2.0
"""Every operator's candidate kernels on a CUDA device, and the chosen one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx

from ....graph.operators import Operator, OperatorGraph
from ...shared.implementation import Implementation
from ...shared.no_rule import NoRule
from ..kernels.kernel import CudaKernel
from ..kernels.schedule import ScheduledFunction, described, schedule, scheduled_kernel
from .config import CudaLoweredGraph, CudaLoweringConfig
from .cudnn import cudnn_implementations
from .function import operator_function
from .layouts import channels_last_values
from .tuned import tuned_function

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
    """

    lowered: CudaLoweredGraph
    candidates: tuple[tuple[Implementation[CudaKernel], ...], ...]

    def choose(self, variants: Mapping[str, str | None]) -> CudaNetwork:
        """Return the network with the kernels of these variants, by operator.

        Others keep theirs.
        """
        chosen = list(self.lowered.implementations)
        for op in self.lowered.graph.operators:
            wanted, candidates = variants.get(op.name), self.candidates[op.index]
            found = next((c for c in candidates if c.kernel.variant == wanted), None)
            if found is not None:
                chosen[op.index] = found
            elif wanted is not None and candidates:
                _logger.warning("operator %s cannot be computed by %s here", op.name, wanted)
        if all(a is b for a, b in zip(chosen, self.lowered.implementations, strict=True)):
            return self
        return replace(self, lowered=replace(self.lowered, implementations=tuple(chosen)))


def implement(graph: OperatorGraph, config: CudaLoweringConfig) -> CudaNetwork:
    """Find the candidate kernels of each operator, and choose the likely fastest."""
    layouts = channels_last_values(graph)
    known: dict[object, tuple[CudaKernel, ...]] = {}
    candidates = tuple(tuple(_candidates(op, layouts, config, known)) for op in graph.operators)
    first = tuple(found[0] if found else None for found in candidates)
    return CudaNetwork(CudaLoweredGraph(graph, first, layouts, config=config), candidates)


def _candidates(
    op: Operator,
    layouts: Mapping[relax.Var, str],
    config: CudaLoweringConfig,
    known: dict[object, tuple[CudaKernel, ...]],
) -> list[Implementation[CudaKernel]]:
    """Return all implementations of an operator; equal functions are scheduled once."""
    if op.opaque:
        return []
    try:
        function, inputs = operator_function(op, layouts)
        key = tvm_ffi.StructuralKey(function)
        if key not in known:
            known[key] = _kernels(op.kind, key, function, len(inputs), config)
    except (NoRule, s_tir.ScheduleError, tvm.error.InternalError) as error:
        _logger.info("operator %s (%s) is left to TVM's lowering: %s", op.name, op.kind, error)
        return []
    own = [Implementation((op.index,), kernel, inputs, op.outputs) for kernel in known[key]]
    return [*own, *_by_cudnn(op, layouts, config)]


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
) -> tuple[CudaKernel, ...]:
    """Return the kernels of a function."""
    return tuple(
        scheduled_kernel(name, (scheduled.name, key), scheduled, num_inputs)
        for scheduled in _schedules(function, config)
        if not scheduled.workspace  # it belongs to the host's thread, which stages share
    )


def _schedules(function: tirx.PrimFunc, config: CudaLoweringConfig) -> Iterator[ScheduledFunction]:
    """Yield the schedule that the user has tuned, then those of the rules."""
    tuned = tuned_function(function, config.database, config.target)
    if tuned is not None:
        yield described("tuned", tuned)
    yield from schedule(function, config.target, config.precision)
