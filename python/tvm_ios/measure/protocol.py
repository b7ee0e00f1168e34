# SPDX-License-Identifier: Apache-2.0
"""What measuring needs of a back end: a builder of kernels, and a runner that times stages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from ..lowering.implementation import Implementation
from ..lowering.kernel import Kernel

K_contra = TypeVar("K_contra", bound=Kernel, contravariant=True)
"""The kernel type of one back end."""
S_contra = TypeVar("S_contra", contravariant=True)
"""The stage type of one back end."""


@dataclass(frozen=True)
class TimedRuns:
    """Several runs of the same stages, one right after another.

    The machine's speed shows in the time of known work on all workers.

    Attributes
    ----------
    seconds : numpy.ndarray
        float64 [runs, stages]: seconds of each stage in each run.
    preempted : numpy.ndarray
        bool [runs, stages]: whether the operating system preempted a worker during the stage.
    arithmetic : numpy.ndarray
        float64 [runs, 2]: seconds of some arithmetic in registers before and after each run.
    copies : numpy.ndarray
        float64 [2]: seconds of a copy in memory before and after all runs.
    """

    seconds: np.ndarray
    preempted: np.ndarray
    arithmetic: np.ndarray
    copies: np.ndarray

    @classmethod
    def steady(cls, seconds: np.ndarray) -> TimedRuns:
        """Return the runs of a device that preempts nothing and whose speed does not change."""
        preempted = np.zeros(seconds.shape, bool)
        return cls(seconds, preempted, np.ones((len(seconds), 2)), np.ones(2))

    def undisturbed(self) -> np.ndarray:
        """Return the seconds of stages, NaN where a worker was preempted."""
        return np.where(self.preempted, np.nan, self.seconds)

    def after(self, warm_up: int) -> TimedRuns:
        """Return the runs without the first ones, which warm up."""
        rest = slice(warm_up, None)
        return TimedRuns(
            self.seconds[rest], self.preempted[rest], self.arithmetic[rest], self.copies
        )


class StageRunner(Protocol[K_contra, S_contra]):
    """What runs and times the stages of one network, in one session."""

    def prepare(self) -> None:
        """Load libraries and data in advance; a second call does nothing."""

    def time_alone(
        self, implementations: Sequence[Implementation[K_contra]], repeat: int
    ) -> TimedRuns:
        """Time runs of operators one after another on one worker, each as a stage."""

    def time(self, stages: Sequence[S_contra], repeat: int) -> TimedRuns:
        """Time runs of stages one after another, as in a compiled network."""


AnyStageRunner = StageRunner[Any, Any]
"""A stage runner of any back end, for code that does not depend on the kernel type."""


class KernelBuilder(Protocol[K_contra]):
    """A kernel builder, which compiles each kernel of a network once."""

    def compile(self, kernels: Iterable[K_contra]) -> None:
        """Compile those kernels that were not compiled yet."""


@dataclass(frozen=True, eq=False)
class Library:
    """Kernels that were compiled together.

    Attributes
    ----------
    path : Path
        The shared library.
    names : dict of kernel key to list of str
        The functions of each kernel, one per phase.
    """

    path: Path
    names: dict[Hashable, list[str]]


class LibraryBuilder(KernelBuilder[K_contra], Protocol[K_contra]):
    """A kernel builder that compiles to libraries, which a session can load."""

    def library(self, kernel: K_contra) -> Library:
        """Return the library of a kernel, and compile it if necessary."""
