# SPDX-License-Identifier: Apache-2.0
"""Kernels: code that computes one operator in tiles that any number of workers can share.

A kernel does not contain a loop over its tiles. It states how many tiles there are and emits the
code for a range of them into the function that is being built. The same kernel therefore serves two
purposes. It becomes a function whose range is a run-time argument, so that the search can time it
in any combination. It also becomes part of a fused stage whose ranges are constants, which is the
code that is deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from tvm.tirx.script import builder as T

from ....lowering.kernel import Kernel as AnyKernel
from ....ops.tensor import TensorSpec
from ....sizes.size import AnyShape, AnySize, OpenSizes, Size
from .plane import PlaneTiles

Order = Literal["rows", "channels"]
Emit = Callable[..., None]
"""``emit(buffers, begin, extent)``, or ``emit(buffers, begin, extent, prefetch_target)``"""


@dataclass(frozen=True)
class Weights:
    """The packed weights that a phase reads.

    Attributes
    ----------
    tensor : int
        Its position among the kernel's tensors.
    first : callable
        Returns the element at which the weights of a tile begin.
    prefetches : bool
        Whether the last tiles of a range prefetch the weights that are needed after the range. The
        code then has one more argument, ``prefetch_target``: where those begin, in elements from
        these weights.
    """

    tensor: int
    first: Callable[[int], int]
    prefetches: bool = False


@dataclass(frozen=True)
class Phase:
    """One loop over tiles; the tiles of a phase are independent of each other.

    Attributes
    ----------
    num_tiles : int
        Number of tiles.
    emit : callable
        ``emit(buffers, begin, extent)`` emits the code that computes tiles ``begin`` to
        ``begin + extent`` through TVM's IR builder. ``buffers`` holds the kernel's inputs, outputs
        and scratch tensors, in this order. If the phase prefetches weights for later, there may
        be a fourth argument, see :class:`Weights`.
    work : float
        Share of the kernel's time that this phase takes, relative to its other phases.
    large_buffers : bool
        Whether buffers that the code allocates may be larger than what is used of them, as those
        of TVM's schedules are. TVM then shrinks them.
    weights : Weights or None
        The constant weights that are read; None if there are none, or few.
    sources : frozenset of str
        The LLVM IR of each function that the code calls.
    first : int
        The number of the first tile: the code is given those from it on.
    code : str or None
        Phases of a kernel for which this is the same have the same code, for other tiles.
    """

    num_tiles: int
    emit: Emit
    work: float = 1.0
    large_buffers: bool = False
    weights: Weights | None = None
    sources: frozenset[str] = frozenset()
    first: int = 0
    code: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.num_tiles, int):
            raise TypeError("an open number of tiles is planned by phase()")

    @property
    def prefetches(self) -> bool:
        """Whether the code takes a prefetch target."""
        return self.weights is not None and self.weights.prefetches


SHARES = 240
"""The parts into which the tiles of a phase are divided whose number is open."""


def phase(num_tiles: AnySize, emit: Emit, **others: Any) -> Phase:
    """Return a phase, whose number of tiles may be open.

    What is planned for it are :data:`SHARES` parts of its tiles, whatever their number is: the code
    of a range of parts computes the range of tiles.

    Parameters
    ----------
    num_tiles : int or Size
    emit : callable
        See :class:`Phase`.
    **others
        The other attributes of the phase.
    """
    if isinstance(num_tiles, int):
        return Phase(num_tiles, emit, **others)
    return Phase(SHARES, by_shares(num_tiles, emit), **others)


def by_shares(num_tiles: AnySize, emit: Emit) -> Emit:
    """Return what emits the code of a range of :data:`SHARES` parts of some tiles."""

    def emit_shares(buffers: Sequence[Any], begin: Any, extent: Any, *ahead: Any) -> None:
        tiles = T.Cast("int64", num_tiles.short if isinstance(num_tiles, Size) else num_tiles)
        first, end = (
            T.Cast("int32", T.floordiv(tiles * T.Cast("int64", share), T.int64(SHARES)))
            for share in (begin, begin + extent)
        )
        emit(buffers, first, end - first, *ahead)

    return emit_shares


@dataclass(frozen=True)
class Finding:
    """What a kernel found wrong with its inputs, for which the call ends in an error.

    It lies in the kernel's last scratch tensor, which nothing else uses: whether something was
    found, the wrong index, and the smallest and the largest valid one.

    Attributes
    ----------
    what : str
        How the error begins.
    """

    SPEC: ClassVar[TensorSpec] = TensorSpec((4,), "int64")

    what: str


@dataclass(frozen=True)
class SharedCode:
    """The code of a kernel that also computes another one, whose tensors are larger.

    Attributes
    ----------
    key : Hashable
        Of the other kernel: a kernel that was made of that one has other code.
    kernel : Kernel
        Its phases have as many tiles, and it has as many tensors, of the same types.
    begins : tuple of int
        At which element of each tensor of the other kernel its own begins.
    """

    key: Hashable
    kernel: Kernel
    begins: tuple[int, ...]


@dataclass(frozen=True)
class Kernel(AnyKernel):
    """The implementation of one operator.

    Attributes
    ----------
    phases : tuple of Phase
        Run one after another; any tile of phase ``i + 1`` may read what any tile of phase ``i``
        wrote.
    plane : PlaneTiles or None
        How the tiles of a single-phase kernel cover its result. None if they do not cover it in row
        order, so that no row strips can be cut from it.
    order : "rows", "channels" or None
        What consecutive tiles of a kernel without a plane read and write: rows of all channels, or
        channels of all rows. None if it is neither.
    variant : str or None
        The name by which a schedule selects this kernel among those of its operator. None if there
        is no choice.
    narrows : bool
        Whether its float32 inputs and outputs may be stored as bfloat16, see :mod:`.storage`.
    finding : Finding or None
        What the driver looks at after the launch.
    shared : SharedCode or None
        Another kernel whose code computes this one.
    sizes : tuple of sizes
        Those that its code computes with, if they are not among the shapes of its tensors.
    """

    phases: tuple[Phase, ...] = field(compare=False)
    plane: PlaneTiles | None = field(default=None, compare=False)
    order: Order | None = field(default=None, compare=False)
    variant: str | None = field(default=None, compare=False)
    narrows: bool = field(default=False, compare=False)
    finding: Finding | None = field(default=None, compare=False)
    sizes: AnyShape = field(default=(), compare=False)
    shared: SharedCode | None = field(default=None, compare=False)

    @property
    def code(self) -> tuple[Kernel, tuple[int, ...]]:
        """The kernel whose code computes this one, and where in bytes its tensors begin."""
        if self.shared is None or self.shared.key != self.key:
            return self, (0,) * len(self.tensors)
        pairs = zip(self.tensors, self.shared.begins, strict=True)
        begins = (replace(spec, shape=(begin,)).num_bytes for spec, begin in pairs)
        return self.shared.kernel, tuple(begins)

    @property
    def opened(self) -> OpenSizes | None:
        """The open dimensions that its sizes depend on; None if they are all known."""
        sizes = (size for shape in (self.sizes, *(t.shape for t in self.tensors)) for size in shape)
        return next((size.owner for size in sizes if isinstance(size, Size)), None)

    @property
    def num_tiles(self) -> int:
        """The largest number of tiles that can be computed at the same time."""
        return max((phase.num_tiles for phase in self.phases), default=0)

    def code_of(self, phase: int) -> int:
        """Return the first phase that has the code of one."""
        name = self.phases[phase].code
        return phase if name is None else [p.code for p in self.phases].index(name)

    @property
    def num_phases(self) -> int:
        """The number of phases; all workers synchronize after each."""
        return len(self.phases)

    @property
    def strip_plane(self) -> PlaneTiles:
        """The plane of a kernel that is computed by row strips."""
        assert self.plane is not None, "only a kernel with a plane is cut into row strips"
        return self.plane

    @property
    def is_noop(self) -> bool:
        """Whether the kernel has nothing to do because all results are in place already."""
        return not self.phases


def convert_input(kernel: Kernel, index: int, conversion: Kernel) -> Kernel:
    """Return ``kernel`` with its input ``index`` converted into scratch memory first.

    Parameters
    ----------
    kernel : Kernel
        The kernel that reads the converted tensor.
    index : int
        Position of the input to convert.
    conversion : Kernel
        A kernel with one input and one output; its output must match that input of ``kernel``.

    Returns
    -------
    Kernel
        Runs the phases of ``conversion`` before those of ``kernel``.
    """
    assert conversion.outputs[0] == kernel.inputs[index], "the conversion yields the kernel's input"
    source = conversion.inputs[0]
    inputs = (*kernel.inputs[:index], source, *kernel.inputs[index + 1 :])
    result = replace(
        kernel,
        inputs=inputs,
        scratch=kernel.scratch + conversion.outputs,
        plane=None,
        order=None,
        key=(kernel.key, "input", index, conversion.key),
    )
    last = len(result.tensors) - 1
    inner = [last if i == index else i for i in range(last)]
    phases = _rewire(conversion.phases, [index, last]) + _rewire(kernel.phases, inner)
    return replace(result, phases=phases)


def convert_output(kernel: Kernel, index: int, conversion: Kernel) -> Kernel:
    """Return ``kernel`` with its output ``index`` converted from scratch memory at the end.

    Parameters
    ----------
    kernel : Kernel
        The kernel that writes the tensor to convert.
    index : int
        Position of the output to convert.
    conversion : Kernel
        A kernel with one input and one output; its input must match that output of ``kernel``.

    Returns
    -------
    Kernel
        Runs the phases of ``conversion`` after those of ``kernel``.
    """
    assert conversion.inputs[0] == kernel.outputs[index], "the conversion reads the kernel's output"
    outputs = kernel.outputs[:index] + conversion.outputs + kernel.outputs[index + 1 :]
    result = replace(
        kernel,
        outputs=outputs,
        scratch=kernel.scratch + conversion.inputs,
        plane=None,
        order=None,
        key=(kernel.key, "output", index, conversion.key),
    )
    last, position = len(result.tensors) - 1, len(kernel.inputs) + index
    inner = [last if i == position else i for i in range(last)]
    phases = _rewire(kernel.phases, inner) + _rewire(conversion.phases, [last, position])
    return replace(result, phases=phases)


def _rewire(phases: tuple[Phase, ...], positions: list[int]) -> tuple[Phase, ...]:
    """Make phases pick their buffers out of a longer list."""

    def rewired(emit: Emit) -> Emit:
        return lambda buffers, *rest: emit([buffers[p] for p in positions], *rest)

    return tuple(
        replace(phase, emit=rewired(phase.emit), weights=_moved(phase.weights, positions))
        for phase in phases
    )


def _moved(weights: Weights | None, positions: list[int]) -> Weights | None:
    return None if weights is None else replace(weights, tensor=positions[weights.tensor])
