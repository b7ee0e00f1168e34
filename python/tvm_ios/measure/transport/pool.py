# SPDX-License-Identifier: Apache-2.0
"""Pools of stage runners: what they do, and the one of this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ...lowering.kernel import K
from ..protocol import K_contra, KernelBuilder, S_contra, StageRunner
from .session import KernelFault

_logger = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class RunnerPool(Protocol[K_contra, S_contra]):
    """A pool of stage runners, which do jobs."""

    def compile(self, kernels: Iterable[K_contra]) -> None:
        """Compile the kernels that later jobs need."""

    def each(
        self,
        items: Sequence[T],
        work: Callable[[StageRunner[K_contra, S_contra], T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        """Call ``work(runner, item)`` for every item.

        Parameters
        ----------
        items : sequence
            The jobs.
        work : callable
            The function that does a job on a stage runner.
        done : callable
            Called on this thread with each item and its result, in order of completion. The result
            is None if the job crashed, took too long or computed something wrong.
        """

    def close(self) -> None:
        """Release the runners; the pool cannot be used afterwards."""


class LocalPool(Generic[K, S]):
    """The pool of one stage runner in this process, where a crash ends the search.

    Parameters
    ----------
    runner : StageRunner
        The stage runner.
    builder : KernelBuilder
        The kernel builder.
    """

    def __init__(self, runner: StageRunner[K, S], builder: KernelBuilder[K]) -> None:
        self._runner, self._builder = runner, builder

    def compile(self, kernels: Iterable[K]) -> None:
        self._builder.compile(kernels)

    def each(
        self,
        items: Sequence[T],
        work: Callable[[StageRunner[K, S], T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        for item in items:
            result = None
            try:
                result = work(self._runner, item)
            except KernelFault as error:
                _logger.warning("%s.", error)
            done(item, result)

    def close(self) -> None:
        """Do nothing: this pool holds no resources."""


AnyRunnerPool = RunnerPool[Any, Any]
"""The runner pool of any back end."""
