# SPDX-License-Identifier: Apache-2.0
"""What has been measured: in this search, and before it where there is a database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import tvm

from ..backend.shared.kernel import Kernel
from ..backend.shared.stages import StageForm
from ..database import DeviceIdentity, MeasurementDatabase, Row
from ..database.digest import digest
from ..support.errors import DatabaseError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subject:
    """What is measured.

    Attributes
    ----------
    key : Hashable
        Equal for what takes equally long.
    kernels : tuple of Kernel
    rest : Hashable
        What else tells it apart.
    words : str
        For people.
    """

    key: Hashable
    kernels: tuple[Kernel, ...]
    rest: Hashable
    words: str


def stage_subject(form: StageForm[Kernel]) -> Subject:
    """A stage on all workers."""
    kernels = tuple(i.kernel for i in form.implementations)
    groups: dict[int, list[str]] = {}
    for kernel, group in zip(kernels, form.groups, strict=True):
        groups.setdefault(group, []).append(kernel.name)
    return Subject(form.key, kernels, form.key[1:], " | ".join(map(" → ".join, groups.values())))


def operator_subject(kernel: Kernel) -> Subject:
    """A kernel on one worker."""
    return Subject(("alone", kernel.key), (kernel,), "alone", f"{kernel.name} on one worker")


@dataclass
class _Record:
    samples: dict[str, list[float]]
    refined: bool


@dataclass
class Records:
    """Samples of what was measured, by :attr:`Subject.key`.

    When the database fails, that is said once, and the search goes on without it.

    Attributes
    ----------
    database : MeasurementDatabase or None
    device : DeviceIdentity or None
        Whose latencies these are; without one the database is left alone.
    conditions : Hashable
        What else of the search decides how long a stage takes.
    """

    database: MeasurementDatabase | None = None
    device: DeviceIdentity | None = None
    conditions: Hashable = None
    _known: dict[Hashable, _Record] = field(default_factory=dict)
    _sought: set[Hashable] = field(default_factory=set)
    _kernels: dict[Hashable, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, database: MeasurementDatabase | None, target: tvm.target.Target, conditions: Hashable
    ) -> Records:
        """Those of this machine, running code for ``target``."""
        device = DeviceIdentity.here(target) if database is not None else None
        return cls(database, device, conditions)

    def recall(self, subjects: Iterable[Subject]) -> None:
        """Ask the database for what was not asked for before."""
        if self.database is None:
            return
        new = {s.key: s for s in subjects if s.key not in self._sought}
        self._sought.update(new)
        keys = {self.digest(subject): key for key, subject in new.items()}
        found: dict[str, Row] = {}
        self._attempt(lambda database, device: found.update(database.find(device, keys)))
        for text, row in found.items():
            self._known.setdefault(keys[text], _Record(row.samples, row.refined))

    def samples(self, key: Hashable) -> Mapping[str, Sequence[float]]:
        """Seconds by division; none for what was never measured."""
        return self._known[key].samples if key in self._known else {}

    def refined(self, key: Hashable) -> bool:
        """Whether it was measured as often as what a schedule rests on."""
        return key in self._known and self._known[key].refined

    def add(
        self, subject: Subject, samples: Mapping[str, Sequence[float]], *, refined: bool = False
    ) -> None:
        """Keep new samples, at once."""
        known = self._known.setdefault(subject.key, _Record({}, False))
        for division, times in samples.items():
            known.samples.setdefault(division, []).extend(times)
        known.refined |= refined
        self._attempt(
            lambda database, device: database.add(
                device, self.digest(subject), subject.words, samples, refined=refined
            )
        )

    def describe(self, features: Mapping[Subject, Sequence[float]]) -> None:
        """Keep what stages that were measured are like."""
        self._attempt(
            lambda database, device: database.describe(
                device, {self.digest(s): tuple(values) for s, values in features.items()}
            )
        )

    def described(self) -> dict[str, Row]:
        """Stages of all networks, by digest, that were measured on this device and described."""
        found: dict[str, Row] = {}
        self._attempt(
            lambda database, device: found.update((r.key, r) for r in database.described(device))
        )
        return found

    def _attempt(self, action: Callable[[MeasurementDatabase, DeviceIdentity], None]) -> None:
        if self.database is None or self.device is None:
            return
        try:
            action(self.database, self.device)
        except DatabaseError as error:
            _logger.warning("%s The search goes on without it.", error)
            self.database = None

    def digest(self, subject: Subject) -> str:
        """The key of a subject in the database."""
        for kernel in subject.kernels:
            if kernel.key not in self._kernels:
                self._kernels[kernel.key] = digest(kernel.key)
        kernels = tuple(self._kernels[kernel.key] for kernel in subject.kernels)
        return digest((kernels, subject.rest, self.conditions))
