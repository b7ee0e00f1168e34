# SPDX-License-Identifier: Apache-2.0
"""A kernel: what computes one operator, in tiles that any number of workers can share.

A kernel does not own a loop over its tiles. It says how many there are, and emits the code for a
range of them into whatever function is being built. The same kernel therefore becomes a function
whose range is a run-time argument (to be measured in any composition) and a part of a fused stage
whose ranges are constants (to be deployed).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....support.keys import remembering
from ....tir.tensor import TensorSpec
from .plane import PlaneTiles

Emit = Callable[[Sequence[Any], Any, Any], None]


@dataclass(frozen=True)
class Phase:
    """One loop over tiles; all tiles of a phase are independent of each other.

    Attributes
    ----------
    tiles : int
        How many tiles there are.
    emit : callable
        ``emit(buffers, begin, extent)`` emits, through TVM's IR builder, the code that computes
        tiles ``begin`` to ``begin + extent``; ``buffers`` are the kernel's inputs, outputs and
        scratch tensors in this order.
    work : float
        Share of the kernel's time that this phase takes, relative to its other phases.
    """

    tiles: int
    emit: Emit
    work: float = 1.0


@dataclass(frozen=True)
class Kernel:
    """The implementation of one operator.

    Attributes
    ----------
    name : str
        A short identifier for people.
    key : Hashable
        Kernels with equal keys emit equal code.
    inputs, outputs, scratch : tuple of TensorSpec
        Its tensors. Scratch is memory that only this kernel uses and that all workers share.
    phases : tuple of Phase
        Run one after another; phase ``i + 1`` may read what phase ``i`` wrote in any tile.
    plane : PlaneTiles or None
        How the tiles of a kernel of one phase cover its result; None where they do so in no order
        that others can make use of.
    variant : str or None
        Which of the kernels of its operator it is, as a schedule names it; None where there is no
        choice.
    """

    name: str
    key: Hashable
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    phases: tuple[Phase, ...] = field(compare=False)
    scratch: tuple[TensorSpec, ...] = ()
    plane: PlaneTiles | None = field(default=None, compare=False)
    variant: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", remembering(self.key))

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """All tensors in the order in which ``Phase.emit`` takes them."""
        return self.inputs + self.outputs + self.scratch

    @property
    def tiles(self) -> int:
        """The most that can be computed at the same time."""
        return max((phase.tiles for phase in self.phases), default=0)

    @property
    def steps(self) -> int:
        """How often all workers wait for each other."""
        return len(self.phases)

    @property
    def band_plane(self) -> PlaneTiles:
        """The plane of a kernel whose bands are computed."""
        assert self.plane is not None, "bands are cut of planes"
        return self.plane

    @property
    def free(self) -> bool:
        """Whether there is nothing to do, as all results are in place already."""
        return not self.phases


def convert_input(kernel: Kernel, index: int, conversion: Kernel) -> Kernel:
    """``kernel`` whose input ``index`` is first converted into scratch memory.

    Parameters
    ----------
    kernel : Kernel
    index : int
        Which input.
    conversion : Kernel
        One input, one output; its output is what ``kernel`` expects.
    """
    assert conversion.outputs[0] == kernel.inputs[index], "a conversion yields what is expected"
    source = conversion.inputs[0]
    inputs = (*kernel.inputs[:index], source, *kernel.inputs[index + 1 :])
    result = replace(
        kernel,
        inputs=inputs,
        scratch=kernel.scratch + conversion.outputs,
        plane=None,
        key=(kernel.key, "input", index, conversion.key),
    )
    last = len(result.tensors) - 1
    inner = [last if i == index else i for i in range(last)]
    phases = _rewire(conversion.phases, [index, last]) + _rewire(kernel.phases, inner)
    return replace(result, phases=phases)


def convert_output(kernel: Kernel, index: int, conversion: Kernel) -> Kernel:
    """``kernel`` whose output ``index`` is converted from scratch memory at the end."""
    assert conversion.inputs[0] == kernel.outputs[index], "a conversion takes what is produced"
    outputs = kernel.outputs[:index] + conversion.outputs + kernel.outputs[index + 1 :]
    result = replace(
        kernel,
        outputs=outputs,
        scratch=kernel.scratch + conversion.inputs,
        plane=None,
        key=(kernel.key, "output", index, conversion.key),
    )
    last, position = len(result.tensors) - 1, len(kernel.inputs) + index
    inner = [last if i == position else i for i in range(last)]
    phases = _rewire(kernel.phases, inner) + _rewire(conversion.phases, [last, position])
    return replace(result, phases=phases)


def _rewire(phases: tuple[Phase, ...], positions: list[int]) -> tuple[Phase, ...]:
    """Phases that pick their buffers out of a longer list."""

    def rewired(emit: Emit) -> Emit:
        return lambda buffers, begin, extent: emit([buffers[p] for p in positions], begin, extent)

    return tuple(replace(phase, emit=rewired(phase.emit)) for phase in phases)
