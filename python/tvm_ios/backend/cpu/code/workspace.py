# SPDX-License-Identifier: Apache-2.0
"""The workspace of stages: which of their tensors lie in it, and where."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from tvm import relax

from ....lowering.implementation import Implementation, Slot
from ....lowering.inplace import resolve
from ....sizes.arithmetic import largest
from ....sizes.size import AnySize, is_open
from ..kernels.kernel import Kernel
from .memory import Lifetime, plan_memory, plan_open_memory


class Part(NamedTuple):
    """A tensor of a kernel: some bytes of the tensor that it lies in, its root.

    Attributes
    ----------
    root : object
        The variable, the ``id`` of a constant array, or a name of scratch memory.
    begin, end : int or Size
        Bytes.
    """

    root: object
    begin: AnySize
    end: AnySize


def tensors_of(
    implementation: Implementation[Kernel], slots: Mapping[relax.Var, Slot]
) -> Iterator[Part]:
    """Yield the tensors of a kernel, in the order of its parameters."""
    kernel = implementation.kernel
    values = (*implementation.inputs, *implementation.outputs)
    for value, spec in zip(values, kernel.inputs + kernel.outputs, strict=True):
        if isinstance(value, np.ndarray):
            yield Part(id(value), 0, spec.num_bytes)
        else:
            root, offset = resolve(value, slots)
            yield Part(root, offset, offset + spec.num_bytes)
    for i, spec in enumerate(kernel.scratch):
        yield Part((id(implementation), i), 0, spec.num_bytes)


def plan_workspace(
    calls: Iterable[tuple[int, Sequence[Part]]],
    elsewhere: Collection[object],
    kept: Collection[object] = (),
) -> tuple[dict[object, AnySize], AnySize]:
    """Plan the memory of all tensors that do not lie elsewhere.

    Parameters
    ----------
    calls : iterable of (int, sequence of Part)
        The stage and the tensors of each kernel, by increasing stage.
    elsewhere : collection
        The roots of the other tensors.
    kept : collection
        The roots of tensors that are read after the last stage.

    Returns
    -------
    offsets : dict of root to int or Size
        Bytes from the beginning of the workspace.
    num_bytes : int or Size
        The size of the workspace.
    """
    lifetimes: dict[object, Lifetime] = {}
    number = 0
    for number, parts in calls:
        for root, _, end in parts:
            if root in elsewhere:
                continue
            known = lifetimes.get(root, Lifetime(0, number, number))
            lifetimes[root] = Lifetime(largest(known.num_bytes, end), known.first, number)
    lifetimes |= {root: replace(lifetimes[root], last=number) for root in kept}
    opened = is_open(lifetime.num_bytes for lifetime in lifetimes.values())
    plan = plan_open_memory if opened else plan_memory
    offsets: Sequence[AnySize]
    num_bytes: AnySize
    offsets, num_bytes = plan(list(lifetimes.values()))
    return dict(zip(lifetimes, offsets, strict=True)), num_bytes


def read_before_written(
    calls: Iterable[tuple[Sequence[Part], Sequence[Part]]],
) -> set[object]:
    """Return the roots of which some kernel reads what no kernel before it has written.

    Parameters
    ----------
    calls : iterable of (sequence of Part, sequence of Part)
        What each kernel reads and what it writes, in order.
    """
    written: dict[object, list[tuple[int, int]]] = {}
    found = set()
    for reads, writes in calls:
        found |= {r.root for r in reads if not _covers(written.get(r.root, []), r.begin, r.end)}
        for root, begin, end in writes:
            written.setdefault(root, []).append((begin, end))
    return found


def _covers(intervals: Iterable[tuple[int, int]], begin: int, end: int) -> bool:
    """Return whether all bytes from ``begin`` to ``end`` lie in the intervals."""
    for first, last in sorted(intervals):
        if first > begin:
            break
        begin = max(begin, last)
    return begin >= end
