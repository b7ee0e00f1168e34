# SPDX-License-Identifier: Apache-2.0
"""The bytes that each worker reads: from what other workers wrote, and of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvm_ios.backend.cpu.code.functions import KernelFunctions
from tvm_ios.backend.cpu.code.region import Place, Region
from tvm_ios.backend.cpu.code.waits import Position, positions, worker_accesses
from tvm_ios.backend.cpu.kernels.footprint import MemoryAccess, Runs
from tvm_ios.backend.cpu.stage.plan import Share
from tvm_ios.lowering.implementation import Implementation
from tvm_ios.ops.tensor import TensorSpec

_LINE = 64  # bytes of a cache line, which belongs to the worker that wrote it last
_NOBODY = -1


@dataclass(frozen=True)
class Traffic:
    """Bytes by position of the launch and by worker, float64 [positions, workers].

    Attributes
    ----------
    moved : numpy.ndarray
        Read where another worker wrote last.
    weights : numpy.ndarray
        Read from the constants of the library. What several workers read comes from memory once:
        each is counted for its part.
    """

    moved: np.ndarray
    weights: np.ndarray


def traffic_of(region: Region, kernels: KernelFunctions) -> Traffic:
    """Return what the workers of a region read.

    A kernel of which only the number of tiles is known writes its results in the order of its
    tiles, and reads all of its inputs.
    """
    launched, workers = positions(region.stages), region.stages[0].plan.workers
    owners = _Owners()
    moved, weights = np.zeros((2, len(launched), workers))
    for number, position in enumerate(launched):
        written: list[tuple[int, Place, Runs]] = []
        constants: dict[int, TensorSpec] = {}  # by their place
        for worker in range(workers):
            for implementation, access in worker_accesses(position, worker, kernels):
                place = region.places[id(implementation)][access.tensor]
                if place.parameter is None:
                    weights[number, worker] += access.runs.size * access.runs.number
                    constants[place.offset] = implementation.kernel.tensors[access.tensor]
                elif access.writes:
                    written.append((worker, place, _own(position, worker, implementation, access)))
                else:
                    moved[number, worker] += owners.foreign(worker, place, access.runs)
        for worker, place, runs in written:
            owners.write(worker, place, runs)
        whole = sum(spec.num_bytes for spec in constants.values())
        weights[number] *= min(1.0, whole / max(weights[number].sum(), 1.0))
    return Traffic(moved, weights)


class _Owners:
    """Who wrote each cache line last."""

    def __init__(self) -> None:
        self._lines: dict[int, np.ndarray] = {}

    def foreign(self, worker: int, place: Place, runs: Runs) -> int:
        """Return how many bytes of ``runs`` another worker wrote last."""
        found = (self._part(place, begin, end) for begin, end in _ranges(place, runs))
        return _LINE * sum(int(((p != worker) & (p != _NOBODY)).sum()) for p in found)

    def write(self, worker: int, place: Place, runs: Runs) -> None:
        """Note that a worker writes ``runs``."""
        for begin, end in _ranges(place, runs):
            self._part(place, begin, end)[:] = worker

    def _part(self, place: Place, begin: int, end: int) -> np.ndarray:
        assert place.parameter is not None, "constants have no owner"
        lines = self._lines.get(place.parameter, np.full(0, _NOBODY, "int16"))
        if end > len(lines):
            lines = np.concatenate([lines, np.full(2 * end - len(lines), _NOBODY, "int16")])
            self._lines[place.parameter] = lines
        return lines[begin:end]


def _ranges(place: Place, runs: Runs) -> Iterator[tuple[int, int]]:
    """Yield the cache lines of each run."""
    for number in range(runs.number):
        begin = place.offset + runs.begin + number * runs.stride
        yield begin // _LINE, -(-(begin + runs.size) // _LINE)


def _own(
    position: Position, worker: int, implementation: Implementation, access: MemoryAccess
) -> Runs:
    """Return the runs that a worker writes, in its order where its footprint is everything."""
    share, runs = position.share, access.runs
    if implementation.kernel.plane is not None or not isinstance(share, Share):
        return runs
    begin, end = (runs.size * cut // share.cuts[-1] for cut in share.cuts[worker : worker + 2])
    return Runs(runs.begin + begin, end - begin)
