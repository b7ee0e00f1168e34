# SPDX-License-Identifier: Apache-2.0
"""The handles of a CUDA device's session: kernels and memory, of which stages are composed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_ios_runtime.cuda import explained

from ....lowering.cold import Place
from ....measure.transport.session import DeviceLost, DeviceUnavailable, RemoteSession, Session
from ....measure.transport.session_handles import SessionHandles, floats
from ....support.errors import UnsupportedError, device_errors
from ..kernels.kernel import CudaKernel
from .builder import CudaKernelBuilder

_ERROR = re.compile(r"(\w*Error): (.*)", re.DOTALL)
_RUNNING = ("RunOnRunner", "TimeOnRunner", "TraceOnRunner")  # what runs kernels
_NOT_TO_BLAME = re.compile(r"out of memory|too little|to itself|OUT_OF_MEMORY", re.IGNORECASE)
_NO_MEMORY = -1


@dataclass(frozen=True)
class Call:
    """A launch of a kernel: its stream, earlier ones to wait for, and the places of its tensors."""

    kernel: CudaKernel
    stream: int
    waits: tuple[int, ...]
    places: tuple[Place, ...]


class CudaSessionHandles(SessionHandles[CudaKernel]):
    """The kernels and the memory of one device; see ``src/runtime/cuda/stage_runner.h``.

    A device that has failed cannot be used again by its process. If that is another one than this,
    its session is closed, and DeviceLost raised.

    Parameters
    ----------
    session : Session
        The process that runs the kernels.
    builder : CudaKernelBuilder
        Compiles the kernels.
    device_id : int
        The device.

    Raises
    ------
    DeviceError
        If the device of this process fails or lacks memory, also in the methods.
    """

    def __init__(self, session: Session, builder: CudaKernelBuilder, device_id: int) -> None:
        self._device_id = device_id
        super().__init__(session, builder, "cuda.", device_id)

    def read(self, memory: int, num_bytes: int) -> bytes:
        """Return the first bytes of a memory."""
        return bytes(self._call("ReadMemory", memory, 0, num_bytes))

    def run(self, stages: Sequence[Sequence[Call]]) -> None:
        """Run stages one after another."""
        self._call("RunOnRunner", self._encode(stages), self._session.limit)

    def time(
        self, runs: Sequence[Sequence[Call]], repeat: int, filler: int | None = None
    ) -> np.ndarray:
        """Return the seconds per run, float64 [repeat], each of one graph of all runs.

        Parameters
        ----------
        runs : sequence of sequence of Call
            The launches of each run; the runs differ in places only.
        repeat : int
            The number of launches of the graph.
        filler : int, optional
            The memory that overwrites L2 before each launch.

        Raises
        ------
        DeviceLost
            If the session's answer is not one latency per launch.
        """
        memory = _NO_MEMORY if filler is None else filler
        answer = self._call("TimeOnRunner", self._encode(runs), repeat, memory, self._session.limit)
        seconds = floats(answer)
        if len(seconds) != repeat:
            raise DeviceLost(f"it answered {len(seconds)} times for {repeat} runs")
        return seconds

    def trace(self, stages: Sequence[Sequence[Call]], repeat: int) -> np.ndarray:
        """Return when each launch of stages begins and ends, float64 [repeat, launches, 2]."""
        answer = self._call("TraceOnRunner", self._encode(stages), repeat, self._session.limit)
        return floats(answer).reshape(repeat, -1, 2)

    def _encode(self, stages: Sequence[Sequence[Call]]) -> bytes:
        return np.array([n for calls in stages for n in self._numbers_of(calls)], "int64").tobytes()

    def _numbers_of(self, calls: Sequence[Call]) -> Iterable[int]:
        yield 1 + max(call.stream for call in calls)
        yield len(calls)
        for call in calls:
            yield self._number(call.kernel)
            yield call.stream
            yield len(call.waits)
            yield from call.waits
            for place in call.places:
                yield place.memory
                yield place.offset

    def _guarded(self, name: str, *arguments: object) -> Any:
        if not isinstance(self._session, RemoteSession):
            with device_errors(self._device_id):
                return super()._guarded(name, *arguments)
        try:
            return super()._guarded(name, *arguments)
        except RuntimeError as error:
            raise_lost(self._device_id, self._session, error, runs=name in _RUNNING)


def raise_lost(
    device_id: int, session: RemoteSession, error: RuntimeError, *, runs: bool = True
) -> None:
    """Raise what an error that a session has answered means; close the session of a lost device.

    Parameters
    ----------
    device_id : int
        The device.
    session : RemoteSession
        The session.
    error : RuntimeError
        What the session has answered.
    runs : bool
        Whether kernels ran, which may be to blame.

    Raises
    ------
    UnsupportedError
        If a library lacks a kernel.
    DeviceUnavailable
        If the device lacks memory or cannot be used.
    DeviceLost
        If it has failed while kernels ran.
    """
    found = _ERROR.search(str(error))
    kind, words = found.groups() if found else ("", str(error))
    if kind == UnsupportedError.__name__:
        raise UnsupportedError(words.strip()) from error
    session.close()
    try:
        with explained(device_id):
            raise RuntimeError(words.strip())
    except RuntimeError as explanation:
        blamed = runs and not _NOT_TO_BLAME.search(words)
        raise (DeviceLost if blamed else DeviceUnavailable)(str(explanation)) from error
