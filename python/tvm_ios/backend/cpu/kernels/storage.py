# SPDX-License-Identifier: Apache-2.0
"""Kernels whose tensors are stored as bfloat16, which halves the bytes that they move.

A kernel computes in float32 whatever its tensors hold. What it reads is widened, and what it writes
is rounded, in registers. Its code does not change: it gets buffers that do so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ....target import Core
from ....tir.bfloat16 import STORED, Stored, round_source
from ....tir.tensor import TensorSpec
from .kernel import Emit, Kernel, Phase


def with_storage(
    kernel: Kernel, inputs: Collection[int], outputs: Collection[int], core: Core
) -> Kernel:
    """Return ``kernel`` with some of its float32 tensors stored as bfloat16.

    Parameters
    ----------
    kernel : Kernel
        A kernel that :attr:`.Kernel.narrows`.
    inputs, outputs : collection of int
        Positions among its inputs and among its outputs. Those that are not float32 stay as they
        are.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        The kernel itself if nothing changes.
    """
    places = {*inputs, *(len(kernel.inputs) + place for place in outputs)}
    narrow = frozenset(p for p in places if kernel.tensors[p].dtype == "float32")
    if not narrow:
        return kernel
    assert kernel.narrows, "the kernel reads and writes through buffers that convert"
    lanes = core.pair_lanes

    def stored(emit: Emit) -> Emit:
        def converting(buffers: Sequence[Any], *rest: Any) -> None:
            emit([Stored(b, lanes) if p in narrow else b for p, b in enumerate(buffers)], *rest)

        return converting

    def phase(old: Phase) -> Phase:
        return replace(old, emit=stored(old.emit), sources=old.sources | round_source(lanes))

    specs = [_narrowed(spec) if p in narrow else spec for p, spec in enumerate(kernel.tensors)]
    number = len(kernel.inputs)
    return replace(
        kernel,
        inputs=tuple(specs[:number]),
        outputs=tuple(specs[number : number + len(kernel.outputs)]),
        phases=tuple(map(phase, kernel.phases)),
        key=(kernel.key, "stored", tuple(sorted(narrow)), core),
    )


def _narrowed(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype=STORED)
