# SPDX-License-Identifier: Apache-2.0
"""Kernels whose tensors are stored in reduced precision, so that they move fewer bytes.

A kernel computes in float32 whatever its tensors hold. What it reads is widened, and what it writes
is narrowed, in registers. Its code does not change: it gets buffers that do so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..isa.storage import Format, Stored
from .kernel import Emit, Kernel, Phase


def with_storage(
    kernel: Kernel, inputs: Mapping[int, Format], outputs: Mapping[int, Format]
) -> Kernel:
    """Return ``kernel`` with some of its float32 tensors in other formats.

    Parameters
    ----------
    kernel : Kernel
        A kernel that :attr:`.Kernel.narrows`.
    inputs, outputs : mapping of int to Format
        By the positions among its inputs and among its outputs. Those that are not float32 stay as
        they are.

    Returns
    -------
    Kernel
        The kernel itself if nothing changes.
    """
    number = len(kernel.inputs)
    places = {**inputs, **{number + place: kind for place, kind in outputs.items()}}
    formats = {p: kind for p, kind in places.items() if kernel.tensors[p].dtype == "float32"}
    if not formats:
        return kernel
    assert kernel.narrows, "the kernel reads and writes through buffers that convert"
    sources = frozenset().union(*(kind.sources for kind in formats.values()))

    def stored(emit: Emit) -> Emit:
        def converting(buffers: Sequence[Any], *rest: Any) -> None:
            emit(
                [Stored(b, formats[p]) if p in formats else b for p, b in enumerate(buffers)],
                *rest,
            )

        return converting

    def phase(old: Phase) -> Phase:
        return replace(old, emit=stored(old.emit), sources=old.sources | sources)

    specs = [
        replace(spec, dtype=formats[p].dtype) if p in formats else spec
        for p, spec in enumerate(kernel.tensors)
    ]
    return replace(
        kernel,
        inputs=tuple(specs[:number]),
        outputs=tuple(specs[number : number + len(kernel.outputs)]),
        phases=tuple(map(phase, kernel.phases)),
        key=(kernel.key, "stored", tuple(sorted(formats.items(), key=lambda item: item[0]))),
    )
