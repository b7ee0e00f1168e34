# SPDX-License-Identifier: Apache-2.0
"""The measurement cache: samples of this search, and of earlier ones if there is a database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..database import DeviceIdentity, MeasurementDatabase, Row
from ..database.digest import digest
from ..database.row import joined, succeeded
from ..lowering.kernel import Kernel
from ..lowering.stages import Stage
from ..support.errors import DatabaseError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkloadKey:
    """A workload key: identifies what is measured.

    Attributes
    ----------
    key : Hashable
        Equal for workloads that take equally long.
    kernels : tuple of Kernel
        The kernels that run.
    rest : Hashable
        Everything else that distinguishes workloads of the same kernels.
    words : str
        The display name.
    """

    key: Hashable
    kernels: tuple[Kernel, ...]
    rest: Hashable
    words: str


def stage_workload(stage: Stage[Kernel]) -> WorkloadKey:
    """Return the workload key of a stage on all workers."""
    kernels = tuple(i.kernel for i in stage.implementations)
    groups: dict[int, list[str]] = {}
    for kernel, group in zip(kernels, stage.groups, strict=True):
        groups.setdefault(group, []).append(kernel.name)
    return WorkloadKey(
        stage.key, kernels, stage.key[1:], " | ".join(map(" → ".join, groups.values()))
    )


def operator_workload(kernel: Kernel) -> WorkloadKey:
    """Return the workload key of a kernel on one worker."""
    return WorkloadKey(("alone", kernel.key), (kernel,), "alone", f"{kernel.name} on one worker")


@dataclass
class _Record:
    samples: dict[str, list[float]]
    refined: bool


@dataclass
class MeasurementCache:
    """The measurement cache: samples by :attr:`WorkloadKey.key`.

    If the database fails, a warning is logged once and the search continues without it.

    Attributes
    ----------
    database : MeasurementDatabase or None
        The database.
    device : DeviceIdentity or None
        The device that the latencies belong to. Without one the database is not used.
    conditions : Hashable
        Further settings of the search that affect latencies.
    """

    database: MeasurementDatabase | None = None
    device: DeviceIdentity | None = None
    conditions: Hashable = None
    _known: dict[Hashable, _Record] = field(default_factory=dict)
    _sought: set[Hashable] = field(default_factory=set)
    _kernels: dict[Hashable, str] = field(default_factory=dict)

    def lookup(self, workloads: Iterable[WorkloadKey]) -> None:
        """Look up workloads in the database that were not looked up before."""
        if self.database is None:
            return
        new = {s.key: s for s in workloads if s.key not in self._sought}
        self._sought.update(new)
        keys = {self.digest(workload): key for key, workload in new.items()}
        found: dict[str, Row] = {}
        self._attempt(lambda database, device: found.update(database.find(device, keys)))
        for text, row in found.items():
            self._known.setdefault(keys[text], _Record(row.samples, row.refined))

    def samples(self, key: Hashable) -> Mapping[str, Sequence[float]]:
        """Return seconds by work partitioning; empty if the workload was never measured."""
        return succeeded(self._known[key].samples) if key in self._known else {}

    def failed(self, key: Hashable) -> frozenset[str]:
        """Return the work partitionings that crashed, hung or computed something wrong."""
        known = self._known[key].samples if key in self._known else {}
        return frozenset(partitioning for partitioning, times in known.items() if not times)

    def refined(self, key: Hashable) -> bool:
        """Return whether a workload was measured as often as the stages of a schedule."""
        return key in self._known and self._known[key].refined

    def add(
        self,
        workload: WorkloadKey,
        samples: Mapping[str, Sequence[float]],
        *,
        refined: bool = False,
    ) -> None:
        """Store new samples at once; those of a work partitioning that failed are not taken.

        Parameters
        ----------
        workload : WorkloadKey
            The workload.
        samples : mapping of str to sequence of float
            Seconds by work partitioning.
        refined : bool
            Whether the workload has now been measured as often as the stages of a schedule.
        """
        known = self._known.setdefault(workload.key, _Record({}, False))
        known.samples = joined(known.samples, samples)
        known.refined |= refined
        self._attempt(
            lambda database, device: database.add(
                device, self.digest(workload), workload.words, samples, refined=refined
            )
        )

    def fail(self, workload: WorkloadKey, partitioning: str) -> None:
        """Store that a workload crashed, hung or computed something wrong.

        Samples that it gave before are forgotten, and later ones are not taken.
        """
        self.add(workload, {partitioning: []})

    def describe(self, features: Mapping[WorkloadKey, Sequence[float]]) -> None:
        """Store the features of measured stages."""
        self._attempt(
            lambda database, device: database.describe(
                device, {self.digest(s): tuple(values) for s, values in features.items()}
            )
        )

    def described(self) -> list[Row]:
        """Return stages with features, of all networks and of devices of this kind."""
        found: list[Row] = []
        self._attempt(lambda database, device: found.extend(database.described(device)))
        return found

    def _attempt(self, action: Callable[[MeasurementDatabase, DeviceIdentity], None]) -> None:
        if self.database is None or self.device is None:
            return
        try:
            action(self.database, self.device)
        except DatabaseError as error:
            _logger.warning("%s The search continues without it.", error)
            self.database = None

    def digest(self, workload: WorkloadKey) -> str:
        """Return the key of a workload in the database."""
        for kernel in workload.kernels:
            if kernel.key not in self._kernels:
                self._kernels[kernel.key] = digest(kernel.key)
        kernels = tuple(self._kernels[kernel.key] for kernel in workload.kernels)
        return digest((kernels, workload.rest, self.conditions))
