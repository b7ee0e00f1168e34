# SPDX-License-Identifier: Apache-2.0
"""Tables of measured stages, which define a simulated device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvm_ios.graph.dag import Candidate
from tvm_ios.schedule.partitioning import STRATEGIES


@dataclass(frozen=True)
class Table:
    """The latencies of a network's stages.

    Attributes
    ----------
    target : str
        The target, as JSON.
    edges : tuple of (int, int)
        The edges of the operator graph that the stages are of.
    on_one_worker : tuple of float
        Seconds of each operator on one worker.
    seconds : mapping of Candidate to mapping of str to float
        Seconds of the stages that were measured, by work partitioning. The others cannot gain
        anything over their operators.
    """

    target: str
    edges: tuple[tuple[int, int], ...]
    on_one_worker: tuple[float, ...]
    seconds: Mapping[Candidate, Mapping[str, float]]

    def save(self, path: Path) -> None:
        """Write the table to a file of NumPy's, ``.npz``."""
        names = sorted({name for row in self.seconds.values() for name in row})
        sets = np.zeros((len(self.seconds), len(self.on_one_worker)), bool)
        for row, candidate in zip(sets, self.seconds, strict=True):
            row[list(candidate.ops)] = True
        table = [[row.get(n, np.nan) for n in names] for row in self.seconds.values()]
        np.savez_compressed(
            path,
            target=np.array(self.target),
            edges=np.array(self.edges, "int16").reshape(-1, 2),
            on_one_worker=np.array(self.on_one_worker, "float32"),
            partitionings=np.array(names),
            operators=np.packbits(sets, axis=1),
            strategies=np.array([STRATEGIES.index(c.strategy) for c in self.seconds], "int8"),
            # Four digits are more than a measurement has, and take half of the space.
            seconds=_rounded(np.array(table, "float32").reshape(-1, len(names))),
        )

    @classmethod
    def load(cls, path: Path) -> Table:
        """Read a table from a file that :meth:`save` has written."""
        with np.load(path) as file:
            on_one_worker = tuple(file["on_one_worker"].tolist())
            sets = np.unpackbits(file["operators"], axis=1, count=len(on_one_worker))
            candidates = [
                Candidate(tuple(np.flatnonzero(row).tolist()), STRATEGIES[number])
                for row, number in zip(sets, file["strategies"].tolist(), strict=True)
            ]
            rows = _rows(file["partitionings"].tolist(), file["seconds"].astype("float64"))
            edges = tuple((int(u), int(v)) for u, v in file["edges"])
            seconds = dict(zip(candidates, rows, strict=True))
            return cls(str(file["target"]), edges, on_one_worker, seconds)


def _rounded(seconds: np.ndarray) -> np.ndarray:
    """Return numbers of four significant decimal digits."""
    step = 10.0 ** (np.floor(np.log10(np.where(seconds > 0, seconds, 1.0))) - 3)
    return (np.round(seconds / step) * step).astype("float32")


def _rows(names: Sequence[str], seconds: Iterable[np.ndarray]) -> list[dict[str, float]]:
    return [
        {name: s for name, s in zip(names, row.tolist(), strict=True) if np.isfinite(s)}
        for row in seconds
    ]
