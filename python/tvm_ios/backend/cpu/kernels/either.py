# SPDX-License-Identifier: Apache-2.0
"""Two kernels of one operator of open sizes, of which one is chosen when the network runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from tvm.tirx.script import builder as T

from .kernel import Kernel, Phase

Expr = Any


def either_kernel(
    condition: Callable[[], Expr], key: Hashable, first: Kernel, second: Kernel
) -> Kernel | None:
    """Return a kernel that computes as ``first`` does if a condition holds, else as ``second``.

    The second input of each is its packed weights; all others are the same. Those of ``second``
    become the third input of the result.

    Parameters
    ----------
    condition : callable
        Returns the condition, of the sizes that are given when the network runs.
    key : hashable
        What the condition depends on.
    first, second : Kernel
        Kernels of one output; the second one has no scratch tensors.

    Returns
    -------
    Kernel or None
        None if their tiles are not divided alike.
    """
    inputs = (first.inputs[0], first.inputs[1], *second.inputs[1:])
    assert first.inputs[2:] == second.inputs[2:], "they read the same arguments"
    assert first.outputs == second.outputs, "they yield the same"
    assert not second.scratch, "its tensors are in front of the scratch tensors"
    own = [0, 1, *range(3, len(inputs) + 1 + len(first.scratch))]
    other = [0, *range(2, len(inputs) + 1)]
    pairs = list(zip_longest(reversed(first.phases), reversed(second.phases)))
    if any(b is not None and (a is None or a.num_tiles != b.num_tiles) for a, b in pairs):
        return None
    return replace(
        first,
        inputs=inputs,
        phases=tuple(_either(condition, a, own, b, other) for a, b in reversed(pairs)),
        key=("either", key, first.key, second.key),
    )


def _either(
    condition: Callable[[], Expr],
    first: Phase,
    own: Sequence[int],
    second: Phase | None,
    other: Sequence[int],
) -> Phase:
    """Return the phase of one kernel or the other, which pick their tensors out of all."""

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr, *ahead: Expr) -> None:
        with T.If(condition()):
            with T.Then():
                first.emit([buffers[i] for i in own], begin, extent, *ahead)
            if second is not None:
                with T.Else():
                    second.emit([buffers[i] for i in other], begin, extent)

    sources = first.sources | (second.sources if second is not None else frozenset())
    return replace(first, emit=emit, sources=sources)
