# SPDX-License-Identifier: Apache-2.0
"""The kernels and the memory of a session, in which stages run."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm_ffi

from ....measure.session import DeviceLost, Session
from ....measure.stage_runner import Turn
from ....tir.tensor import TensorSpec
from ...shared.cold import Place
from ..kernels.kernel import Kernel
from .builder import CpuKernelBuilder

_CHUNK = 16 << 20  # bytes per message
_STAGES_PER_LIMIT = 20  # the time limit of one stage is enough for so many


@dataclass(frozen=True)
class Call:
    """A phase of a kernel with the places of its tensors."""

    kernel: Kernel
    phase: int
    places: tuple[Place, ...]


class NativeRunner:
    """The kernels and the memory of one session.

    The session refers to both by number, see ``src/runtime/stage_runner.h``.

    Parameters
    ----------
    session : Session
        The process that runs the kernels.
    builder : CpuKernelBuilder
        Compiles the kernels.
    """

    def __init__(self, session: Session, builder: CpuKernelBuilder) -> None:
        self._session, self._builder = session, builder
        self._bench = session.call("NewStageRunner")
        self._numbers: dict[Hashable, list[int]] = {}

    def memory(self, num_bytes: int) -> int:
        """Allocate memory, filled with zeros, and return its number."""
        return self._session.call("AddMemory", self._bench, num_bytes)

    def write(self, memory: int, array: np.ndarray) -> None:
        """Copy an array to the beginning of a memory."""
        content = np.ascontiguousarray(array).reshape(-1).view("uint8").data
        for begin in range(0, len(content), _CHUNK):
            chunk = bytes(content[begin : begin + _CHUNK])
            self._session.call("WriteMemory", self._bench, memory, begin, chunk)

    def fill(self, memory: int, array: np.ndarray) -> None:
        """Fill a memory with copies of an array."""
        self._session.call("FillMemory", self._bench, memory, array.tobytes())

    def time(
        self,
        runs: Sequence[Sequence[Call]],
        program: np.ndarray,
        levels: Sequence[int],
        workers: int,
    ) -> Turn:
        """Measure the seconds that stages take, one after another, in each of several runs.

        Parameters
        ----------
        runs : sequence of sequence of Call
            The calls of each run; the runs differ in places only.
        program : numpy.ndarray
            int32 ``[rows, 2 + workers + 1]``: number of the call, its level, and the tile
            boundaries between the workers.
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
        answer = self._session.call(
            "TimeOnRunner",
            self._bench,
            program.tobytes(),
            np.array(levels, "int32").tobytes(),
            calls.tobytes(),
            workers,
            len(runs),
            limit,
        )
        times = _floats(answer)
        if len(times) != 2 + len(runs) * (2 + len(levels)) or (limit and (times > limit).any()):
            raise DeviceLost(
                f"it answered {len(times)} times up to {max(times, default=0.0):g} s for "
                f"{len(runs)} runs of {len(levels)} stages, each below {limit:g} s"
            )
        table = times[2:].reshape(len(runs), 2 + len(levels))
        return Turn(table[:, 2:], table[:, :2], times[:2])

    def trace(self, calls: Sequence[Call], program: np.ndarray, workers: int) -> np.ndarray:
        """Record when each worker computes which call, in one run.

        Parameters
        ----------
        calls : sequence of Call
            The calls.
        program : numpy.ndarray
            As for :meth:`time`.
        workers : int
            Number of workers.

        Returns
        -------
        numpy.ndarray
            float64 ``[n, 4]``: worker, call, and the seconds at which it begins and ends.

        Raises
        ------
        DeviceLost
            If the session's answer does not have that form.
        """
        numbers = np.array([n for call in calls for n in self._encode(call)], "int64")
        spans = self._session.call(
            "TraceOnRunner",
            self._bench,
            program.tobytes(),
            numbers.tobytes(),
            workers,
            self._session.limit,
        )
        found = _floats(spans)
        if len(found) % 4:
            raise DeviceLost(f"it answered {len(found)} numbers where each call has four")
        return found.reshape(-1, 4)

    def _encode(self, call: Call) -> Iterable[int]:
        yield self._number(call.kernel, call.phase)
        for place in call.places:
            yield place.memory
            yield place.offset

    def _number(self, kernel: Kernel, phase: int) -> int:
        if kernel.key not in self._numbers:
            library = self._builder.library(kernel)
            module = self._session.load(library)
            specs = np.array([n for spec in kernel.tensors for n in _described(spec)], "int64")
            self._numbers[kernel.key] = [
                self._session.call("AddKernel", self._bench, module, name, specs.tobytes())
                for name in library.names[kernel.key]
            ]
        return self._numbers[kernel.key][phase]


def _floats(answer: object) -> np.ndarray:
    """Decode the float64 numbers that a device answered; raise DeviceLost for any other answer."""
    if not isinstance(answer, (bytes, bytearray)) or len(answer) % 8:
        raise DeviceLost(f"it answered a {type(answer).__name__} where float64 numbers belong")
    return np.frombuffer(answer, "float64")


def _described(spec: TensorSpec) -> Iterable[int]:
    dtype = tvm_ffi.dtype(spec.dtype)
    return (dtype.type_code, dtype.bits, len(spec.shape), *spec.shape)
