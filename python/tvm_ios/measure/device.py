# SPDX-License-Identifier: Apache-2.0
"""What stages are timed on, as the search's measuring sees it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tvm

from ..backend.shared.implementation import Implementation
from ..backend.shared.kernel import Kernel
from ..schedule.timeline import Span


class Device(Protocol):
    """Runs stages of one network, and times them."""

    def run(self, implementation: Implementation) -> None:
        """Run an operator once."""

    def time_alone(self, implementation: Implementation, repeat: int) -> list[float]:
        """Return the seconds of each run of an operator on one worker."""

    def time(self, stage: Any, repeat: int) -> list[float]:
        """Return the seconds of each run of a stage."""

    def trace(self, stages: Sequence[Any], repeat: int) -> list[Span]:
        """Return when each worker computes what, in the fastest of several runs."""

    def prepare(self) -> None:
        """Load what will be needed."""


class KernelBuilder(Protocol):
    """Compiles each kernel of a network once."""

    def compile(self, kernels: Iterable[Kernel]) -> None:
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
