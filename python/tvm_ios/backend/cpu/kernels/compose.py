# SPDX-License-Identifier: Apache-2.0
"""Kernels made of other kernels: on tensors of other shapes, and by horizontal fusion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from ....lowering.no_rule import NoRule
from ....ops.tensor import TensorSpec
from ....sizes.size import AnyShape, is_open, known_equal
from ..isa.storage import viewed
from .kernel import SHARES, Emit, Kernel, Phase, by_shares


def with_shapes(kernel: Kernel, inputs: Sequence[AnyShape], outputs: Sequence[AnyShape]) -> Kernel:
    """Return ``kernel`` on the same memory with its tensors viewed in other shapes of equal size.

    The rows of a matrix stay in order in every view; the pixels of a feature map may not.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    inputs, outputs : sequence of tuple of sizes
        The new shape of each input and output.

    Returns
    -------
    Kernel
        A kernel that emits the same code on views of its buffers.
    """
    result = replace(
        kernel,
        inputs=_reshaped(kernel.inputs, inputs),
        outputs=_reshaped(kernel.outputs, outputs),
        plane=kernel.plane if kernel.plane is not None and kernel.plane.matrix else None,
        key=(kernel.key, tuple(inputs), tuple(outputs)),
    )

    def on_views(emit: Emit) -> Emit:
        return lambda buffers, *rest: emit(
            [_view(b, s) for b, s in zip(buffers, kernel.tensors, strict=True)], *rest
        )

    return replace(result, phases=tuple(replace(p, emit=on_views(p.emit)) for p in kernel.phases))


def fused_horizontally(kernels: Sequence[Kernel]) -> Kernel:
    """Fuse several one-phase kernels that read the same tensors horizontally, into one kernel.

    It has the outputs of all of them.
    """
    first = kernels[0]
    assert all(k.inputs == first.inputs and len(k.phases) == 1 for k in kernels), "all alike"
    phases = [kernel.phases[0] for kernel in kernels]
    combine = _side_by_side if any(kernel.opened for kernel in kernels) else _one_after_another
    num_tiles, emit = combine(phases, len(first.inputs))
    return Kernel(
        name=first.name,
        key=("beside", *(kernel.key for kernel in kernels)),
        inputs=first.inputs,
        outputs=tuple(kernel.outputs[0] for kernel in kernels),
        phases=(Phase(num_tiles, emit, large_buffers=any(p.large_buffers for p in phases)),),
        narrows=all(kernel.narrows for kernel in kernels),
        sizes=tuple(size for kernel in kernels for size in kernel.sizes),
    )


def _one_after_another(phases: Sequence[Phase], inputs: int) -> tuple[int, Emit]:
    """Return the tiles of all phases, those of the first phase first."""
    ends = list(accumulate(phase.num_tiles for phase in phases))

    def emit(buffers: Sequence[Any], begin: Any, extent: Any) -> None:
        for phase, output, end in zip(phases, buffers[inputs:], ends, strict=True):
            low, high = (
                T.min(T.max(bound - (end - phase.num_tiles), 0), phase.num_tiles)
                for bound in (begin, begin + extent)
            )
            phase.emit([*buffers[:inputs], output], low, high - low)

    return ends[-1], emit


def _side_by_side(phases: Sequence[Phase], inputs: int) -> tuple[int, Emit]:
    """Return shares of the tiles of each phase: how much work they are is not known."""
    emits = [p.emit if p.num_tiles == SHARES else by_shares(p.num_tiles, p.emit) for p in phases]

    def emit(buffers: Sequence[Any], begin: Any, extent: Any) -> None:
        for emit_one, output in zip(emits, buffers[inputs:], strict=True):
            emit_one([*buffers[:inputs], output], begin, extent)

    return SHARES, emit


def _reshaped(specs: Sequence[TensorSpec], shapes: Sequence[AnyShape]) -> tuple[TensorSpec, ...]:
    pairs = list(zip(specs, shapes, strict=True))
    for spec, shape in pairs:
        if not known_equal(spec.num_elements, math.prod(shape)):
            assert is_open((*spec.shape, *shape)), "a view has as many elements"
            raise NoRule  # equal sizes that are written differently, which is not proven
    return tuple(spec if _same(spec, s) else TensorSpec(tuple(s), spec.dtype) for spec, s in pairs)


def _same(spec: TensorSpec, shape: AnyShape) -> bool:
    return len(spec.shape) == len(shape) and all(map(known_equal, spec.shape, shape))


def _view(buffer: Any, spec: TensorSpec) -> Any:
    """Return the memory of ``buffer`` in the shape of ``spec``."""
    sizes = tuple(int(n) if isinstance(n, int | tirx.IntImm) else None for n in buffer.shape)
    if sizes == spec.shape:
        return buffer
    return viewed(buffer, spec.shape, spec.strides)
