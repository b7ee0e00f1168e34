# SPDX-License-Identifier: Apache-2.0
"""Every operator's possible kernels on a CUDA device, and the one that is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx

from ...graph.operators import Operator, OperatorGraph
from ...kernels.cuda.channels_last import channels_last
from ...kernels.cuda.kernel import CudaKernel
from ...kernels.cuda.schedule import schedule
from ...kernels.kernel import TensorSpec
from ..feeds import Feeder, NoRule
from ..implement import Implementation, LoweredGraph
from ..legalize import tir_of
from .cudnn import cudnn_implementations
from .layouts import channels_last_values
from .preferences import CudaPreferences

_logger = logging.getLogger(__name__)

_WEIGHTED = ("conv2d", "depthwise_conv2d")


@dataclass(frozen=True)
class CudaNetwork:
    """A network with all kernels that each operator may have.

    Attributes
    ----------
    lowered : LoweredGraph
        With the kernel that each operator has.
    candidates : tuple of tuple of Implementation
        Per operator, the likely fastest first; nothing for an operator that stays as TVM wrote it.
    """

    lowered: LoweredGraph
    candidates: tuple[tuple[Implementation, ...], ...]

    def choose(self, variants: Mapping[str, str | None]) -> CudaNetwork:
        """The same with the kernels of these variants, by operator; others keep theirs."""
        chosen = list(self.lowered.implementations)
        for op in self.lowered.graph.operators:
            wanted = variants.get(op.name)
            for candidate in self.candidates[op.index]:
                if candidate.kernel.variant == wanted:
                    chosen[op.index] = candidate
        return replace(self, lowered=replace(self.lowered, implementations=tuple(chosen)))


def implement(graph: OperatorGraph, preferences: CudaPreferences) -> CudaNetwork:
    """Find the kernels that each operator may have, and give it the likely fastest."""
    layouts = channels_last_values(graph)
    known: dict[object, tuple[CudaKernel, ...]] = {}
    candidates = tuple(
        tuple(_candidates(op, layouts, preferences, known)) for op in graph.operators
    )
    first = tuple(found[0] if found else None for found in candidates)
    return CudaNetwork(LoweredGraph(graph, first, layouts, preferences), candidates)


def _candidates(
    op: Operator,
    layouts: Mapping[relax.Var, str],
    preferences: CudaPreferences,
    known: dict[object, tuple[CudaKernel, ...]],
) -> list[Implementation]:
    """All implementations of an operator; equal functions are scheduled once."""
    if op.alone:
        return []
    try:
        function, inputs = _function(op, layouts)
        key = tvm_ffi.StructuralKey(function)
        if key not in known:
            known[key] = _kernels(op.kind, key, function, len(inputs), preferences)
    except (NoRule, s_tir.ScheduleError, tvm.error.InternalError) as error:
        _logger.info("operator %s (%s) stays as TVM wrote it: %s", op.name, op.kind, error)
        return []
    own = [Implementation((op.index,), kernel, inputs, op.outputs) for kernel in known[key]]
    return [*own, *_by_cudnn(op, layouts, preferences)]


def _by_cudnn(
    op: Operator, layouts: Mapping[relax.Var, str], preferences: CudaPreferences
) -> list[Implementation]:
    """The implementations that the library has, where it may be used."""
    if preferences.cudnn is None:
        return []
    try:
        return cudnn_implementations(op, layouts, preferences.precision, preferences.cudnn)
    except NoRule:
        return []


def _function(
    op: Operator, layouts: Mapping[relax.Var, str]
) -> tuple[tirx.PrimFunc, tuple[relax.Var | np.ndarray, ...]]:
    """The operator as one function of tensors as they lie in memory, and what it reads."""
    function, feeds = tir_of(op, Feeder({}))
    values = [feed.value for feed in feeds]
    tensors = (*values, *op.outputs)
    if not any(value in layouts for value in tensors if isinstance(value, relax.Var)):
        return function, tuple(values)
    weights = _weights(op, values)
    maps = [
        i
        for i, value in enumerate(tensors)
        if (value in layouts if isinstance(value, relax.Var) else value.ndim == 4 and i != weights)
    ]
    function = channels_last(function, maps, () if weights is None else (weights,))
    for i in maps:
        if isinstance(tensors[i], np.ndarray):
            values[i] = np.ascontiguousarray(values[i].transpose(0, 2, 3, 1))
    if weights is not None:
        values[weights] = np.ascontiguousarray(values[weights].transpose(2, 3, 1, 0))
    return function, tuple(values)


def _weights(op: Operator, values: Sequence[relax.Var | np.ndarray]) -> int | None:
    """Which of the values are a convolution's weights, if these are known."""
    if op.kind not in _WEIGHTED:
        return None
    shape = tuple(int(size) for size in op.anchor.args[1].ty.shape.values)
    for i, value in enumerate(values):
        if isinstance(value, np.ndarray) and value.shape == shape:
            return i
    return None


def _kernels(
    name: str, key: object, function: tirx.PrimFunc, num_inputs: int, preferences: CudaPreferences
) -> tuple[CudaKernel, ...]:
    """The kernels of a function."""
    specs = [TensorSpec(tuple(map(int, p.shape)), str(p.dtype)) for p in function.params]
    return tuple(
        CudaKernel(
            name=name,
            key=(scheduled.name, key),
            inputs=tuple(specs[:num_inputs]),
            outputs=tuple(specs[num_inputs:]),
            function=scheduled.function,
            variant=scheduled.name,
            shareable=not scheduled.workspace,
        )
        for scheduled in schedule(function, preferences.target, preferences.precision)
        if not scheduled.workspace
    )
