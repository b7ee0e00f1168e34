# SPDX-License-Identifier: Apache-2.0
"""The protocols of runners, which time stages, as the measuring cost model uses them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import tvm

from ..backend.shared.implementation import Implementation
from ..backend.shared.kernel import Kernel
from ..schedule.timeline import Span

K_contra = TypeVar("K_contra", bound=Kernel, contravariant=True)
"""The kernel type of one back end."""
S_contra = TypeVar("S_contra", contravariant=True)
"""The stage type of one back end."""


class StageRunner(Protocol[K_contra, S_contra]):
    """A runner: runs and times stages of one network."""

    def run(self, implementation: Implementation[K_contra]) -> None:
        """Run an operator once."""

    def time_alone(self, implementation: Implementation[K_contra], repeat: int) -> list[float]:
        """Return the seconds of each run of an operator on one worker."""

    def time(self, stage: S_contra, repeat: int) -> list[float]:
        """Return the seconds of each run of a stage."""

    def trace(self, stages: Sequence[S_contra], repeat: int) -> list[Span]:
        """Return when each worker runs which kernel, in the fastest of several runs."""


class PreparedRunner(StageRunner[K_contra, S_contra], Protocol[K_contra, S_contra]):
    """A runner that is prepared before its first job."""

    def prepare(self) -> None:
        """Load libraries and data in advance."""


AnyStageRunner = StageRunner[Any, Any]
"""A runner of any back end, for code that does not depend on the kernel type."""


class KernelBuilder(Protocol[K_contra]):
    """A kernel builder, which compiles each kernel of a network once."""

    def compile(self, kernels: Iterable[K_contra]) -> None:
        """Compile those kernels that were not compiled yet."""


@dataclass(frozen=True, eq=False)
class Library:
    """Kernels that were compiled together.

    Attributes
    ----------
    executable : tvm.runtime.Executable
        The compiled module.
    path : Path or None
        The shared library, if it has to be uploaded.
    names : dict of kernel key to list of str
        The functions of each kernel, one per phase.
    """

    executable: tvm.runtime.Executable
    path: Path | None
    names: dict[Hashable, list[str]]
