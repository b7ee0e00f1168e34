# SPDX-License-Identifier: Apache-2.0
"""What stages are timed on, as the search's measuring sees it."""

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
"""The kernels of one back end."""
S_contra = TypeVar("S_contra", contravariant=True)
"""Its stages."""


class Device(Protocol[K_contra, S_contra]):
    """Runs stages of one network, and times them."""

    def run(self, implementation: Implementation[K_contra]) -> None:
        """Run an operator once."""

    def time_alone(self, implementation: Implementation[K_contra], repeat: int) -> list[float]:
        """Return the seconds of each run of an operator on one worker."""

    def time(self, stage: S_contra, repeat: int) -> list[float]:
        """Return the seconds of each run of a stage."""

    def trace(self, stages: Sequence[S_contra], repeat: int) -> list[Span]:
        """Return when each worker computes what, in the fastest of several runs."""


class FarDevice(Device[K_contra, S_contra], Protocol[K_contra, S_contra]):
    """A device that is got ready before it is given work."""

    def prepare(self) -> None:
        """Load what will be needed."""


AnyDevice = Device[Any, Any]
"""That of any back end, for what is not concerned with its kernels."""


class KernelBuilder(Protocol[K_contra]):
    """Compiles each kernel of a network once."""

    def compile(self, kernels: Iterable[K_contra]) -> None:
        """Compile the kernels that are new."""


@dataclass(frozen=True, eq=False)
class Library:
    """Kernels that were compiled together.

    Attributes
    ----------
    executable : tvm.runtime.Executable
    path : Path or None
        The shared library, where it has to travel.
    names : dict of kernel key to list of str
        The functions of each kernel, one a phase.
    """

    executable: tvm.runtime.Executable
    path: Path | None
    names: dict[Hashable, list[str]]
