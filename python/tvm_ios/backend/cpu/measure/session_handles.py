# SPDX-License-Identifier: Apache-2.0
"""The handles of a CPU's session: kernels and memory, of which stages are composed and timed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ....lowering.cold import Place
from ....measure.protocol import TimedRuns
from ....measure.transport.session import DeviceLost, Session
from ....measure.transport.session_handles import SessionHandles, floats
from ..kernels.kernel import Kernel
from .builder import CpuKernelBuilder

_STAGES_PER_LIMIT = 20  # the time limit of one stage is enough for so many


@dataclass(frozen=True)
class Call:
    """A phase of a kernel with the places of its tensors."""

    kernel: Kernel
    phase: int
    places: tuple[Place, ...]


class CpuSessionHandles(SessionHandles[Kernel]):
    """The kernels and the memory of one session, see ``src/runtime/stage_runner.h``.

    Parameters
    ----------
    session : Session
        The process that runs the kernels.
    builder : CpuKernelBuilder
        Compiles the kernels.
    """

    def __init__(self, session: Session, builder: CpuKernelBuilder) -> None:
        super().__init__(session, builder, "")

    def time(
        self,
        runs: Sequence[Sequence[Call]],
        program: np.ndarray,
        levels: Sequence[int],
        workers: int,
    ) -> TimedRuns:
        """Measure the seconds that stages take, one after another, in each of several runs.

        Parameters
        ----------
        runs : sequence of sequence of Call
            The calls of each run; the runs differ in places only.
        program : numpy.ndarray
            int32 ``[rows, 3 + workers + 1]``: number of the call, its level, into how many units
            the tiles of each worker are divided, and the tile boundaries between the workers. See
            ``src/runtime/cpu_stage.h``.
        levels : sequence of int
            The number of levels of each stage.
        workers : int
            Number of workers.

        Raises
        ------
        DeviceLost
            If the session's answer is not one latency per run and stage.
        """
        calls = np.array([n for run in runs for call in run for n in self._encode(call)], "int64")
        limit = self._session.limit * max(1.0, len(levels) / _STAGES_PER_LIMIT)
        answer = self._call(
            "TimeOnRunner",
            program.tobytes(),
            np.array(levels, "int32").tobytes(),
            calls.tobytes(),
            workers,
            len(runs),
            limit,
        )
        times = floats(answer)
        if len(times) != 2 + len(runs) * (2 + len(levels)) or (limit and (times > limit).any()):
            raise DeviceLost(
                f"it answered {len(times)} times up to {max(times, default=0.0):g} s for "
                f"{len(runs)} runs of {len(levels)} stages, each below {limit:g} s"
            )
        table = times[2:].reshape(len(runs), 2 + len(levels))
        return _decoded(table[:, 2:], table[:, :2], times[:2])

    def _encode(self, call: Call) -> Iterable[int]:
        yield self._number(call.kernel, call.phase)
        for place in call.places:
            yield place.memory
            yield place.offset


def _decoded(seconds: np.ndarray, arithmetic: np.ndarray, copies: np.ndarray) -> TimedRuns:
    """Return what a session has answered: it negates the seconds in which a worker was preempted.

    See ``StageRunner::Time`` in ``src/runtime/stage_runner.h``.
    """
    return TimedRuns(np.abs(seconds), seconds < 0, arithmetic, copies)
