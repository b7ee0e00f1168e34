# SPDX-License-Identifier: Apache-2.0
"""The protocols of runners, which time stages, as the measuring cost model uses them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from ...lowering.implementation import Implementation
from ...lowering.kernel import Kernel

K_contra = TypeVar("K_contra", bound=Kernel, contravariant=True)
"""The kernel type of one back end."""
S_contra = TypeVar("S_contra", contravariant=True)
"""The stage type of one back end."""


@dataclass(frozen=True)
class Turn:
    """Several runs of the same stages, one right after another.

    The machine's speed shows in the time of known work on all workers.

    Attributes
    ----------
    seconds : numpy.ndarray
        float64 [runs, stages]; negative where a worker lost its core meanwhile.
    arithmetic : numpy.ndarray
        float64 [runs, 2]: seconds of some arithmetic in registers before and after each run.
    copies : numpy.ndarray
        float64 [2]: seconds of a copy in memory before and after all runs.
    """

    seconds: np.ndarray
    arithmetic: np.ndarray
    copies: np.ndarray

    @classmethod
    def steady(cls, seconds: np.ndarray) -> Turn:
        """Return the turn of a device whose speed does not change."""
        return cls(seconds, np.ones((len(seconds), 2)), np.ones(2))


class StageRunner(Protocol[K_contra, S_contra]):
    """A runner: runs and times stages of one network."""

    def time_alone(self, implementations: Sequence[Implementation[K_contra]], repeat: int) -> Turn:
        """Time runs of operators one after another on one worker, each as a stage."""

    def time(self, stages: Sequence[S_contra], repeat: int) -> Turn:
        """Time runs of stages one after another, as in a compiled network."""


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
    path : Path
        The shared library.
    names : dict of kernel key to list of str
        The functions of each kernel, one per phase.
    """

    path: Path
    names: dict[Hashable, list[str]]
