# SPDX-License-Identifier: Apache-2.0
"""The measurement database: one row for each stage and device."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, fields
from pathlib import Path

from ..support.errors import DatabaseError
from .file import connect
from .identity import DeviceIdentity
from .row import Features, Row, joined, plausible, read_features, read_samples, read_time

_logger = logging.getLogger(__name__)

_DEVICE = tuple(f.name for f in fields(DeviceIdentity))
_REPLACE = "UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in ("samples", "refined", "measured")
)
_BATCH = 500  # keys per query: SQLite allows 999 parameters
_DESCRIBED = 4000  # rows that are learned from; reading them takes a tenth of a second


class MeasurementDatabase:
    """Latencies of stages in an SQLite file that several processes may use at once.

    Every addition is a transaction of its own: a killed process loses no completed addition.

    Parameters
    ----------
    path : path
        The file.
    create : bool
        Whether to create the file if it does not exist. Without it, the file is only read: what
        adds or deletes raises DatabaseError.

    Raises
    ------
    DatabaseError
        In the constructor and in all methods: if the file is not a measurement database, is damaged
        or has another version, in which case it is left unchanged; or if it cannot be read or
        written.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path = Path(path)
        self._connection = connect(self.path, create=create)
        self._close = weakref.finalize(self, self._connection.close)

    def close(self) -> None:
        """Close the file; the last connection merges the log into it."""
        self._close()

    def find(self, device: DeviceIdentity, keys: Iterable[str]) -> dict[str, Row]:
        """Return the rows of stages on a device, by key."""
        wanted = list(keys)
        found: dict[str, Row] = {}
        with self._translated():
            for begin in range(0, len(wanted), _BATCH):
                batch = wanted[begin : begin + _BATCH]
                marks = ",".join("?" * len(batch))
                rows = self._select(f"{_same_device()} AND key IN ({marks})", device, batch)
                found.update((row.key, row) for row in rows)
        return found

    def add(
        self,
        device: DeviceIdentity,
        key: str,
        stage: str,
        samples: Mapping[str, Sequence[float]],
        *,
        refined: bool = False,
    ) -> None:
        """Add samples to those of a stage; impossible ones are dropped.

        A work partitioning without samples has failed, which no later samples undo.

        Parameters
        ----------
        device : DeviceIdentity
            The device.
        key : str
            The digest of the stage.
        stage : str
            The display name of the stage.
        samples : mapping of str to sequence of float
            New latencies in seconds, by work partitioning.
        refined : bool
            Whether the stage has now been measured as often as the stages of a schedule.
        """
        new = plausible(samples)
        if not new:
            return
        row = Row(device, key, stage, new, refined, time.time())
        with self._transaction():
            known = self._select(f"{_same_device()} AND key = ?", device, [key])
            self._put(_joined(next(known, None), row), _REPLACE)

    def describe(self, device: DeviceIdentity, features: Mapping[str, Features]) -> None:
        """Store the features of stages that were measured on a device, by key."""
        with self._transaction():
            for key, values in features.items():
                self._connection.execute(
                    "UPDATE stage SET features = ? WHERE key = ? AND device = "
                    f"(SELECT id FROM device WHERE {_same_device()})",
                    [json.dumps(values), key, *astuple(device)],
                )

    def described(self, device: DeviceIdentity, limit: int = _DESCRIBED) -> list[Row]:
        """Return stages that have features, of all devices of the same kind as ``device``.

        Those of the device itself come first, then those of others, the latest before earlier ones.

        Parameters
        ----------
        device : DeviceIdentity
            The device.
        limit : int
            The largest number of rows.
        """
        with self._translated():
            devices = [(number, d) for number, d in self._devices() if d.kind == device.kind]
            devices.sort(key=lambda entry: entry[1] != device)
            found: list[Row] = []
            for number, _ in devices:
                order = "features IS NOT NULL ORDER BY measured DESC, key LIMIT ?"
                rest = [number, limit - len(found)]
                found += self._select(f"device.id = ? AND {order}", None, rest)
        return found

    def rows(self) -> Iterator[Row]:
        """Yield all rows, by device and key."""
        with self._translated():
            yield from self._select("1 ORDER BY stage.device, key", None, [])

    def insert(self, rows: Iterable[Row]) -> int:
        """Add rows unless the stage and device are present; return how many were added.

        If one cannot be read or written, none is added.
        """
        with self._transaction():
            before = self._count("stage")
            for row in rows:
                self._put(row, "NOTHING")
            return self._count("stage") - before

    def delete(self, unwanted: Callable[[DeviceIdentity], bool], before: float) -> int:
        """Delete rows of unwanted devices, and rows last measured before ``before``.

        Return the number of deleted rows. The file shrinks unless it is in use.
        """
        with self._transaction():
            rows = self._count("stage")
            self._connection.execute("DELETE FROM stage WHERE measured < ?", [before])
            for number, device in self._devices():
                if unwanted(device):
                    self._connection.execute("DELETE FROM device WHERE id = ?", [number])
            self._connection.execute(
                "DELETE FROM device WHERE id NOT IN (SELECT device FROM stage)"
            )
            deleted = rows - self._count("stage")
        with suppress(sqlite3.OperationalError):  # another process is reading
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    def _devices(self) -> list[tuple[int, DeviceIdentity]]:
        rows = self._connection.execute(f"SELECT id, {', '.join(_DEVICE)} FROM device").fetchall()
        return [(number, DeviceIdentity(*values)) for number, *values in rows]

    def _select(
        self, condition: str, device: DeviceIdentity | None, parameters: Sequence[object]
    ) -> Iterator[Row]:
        names = ", ".join(f"device.{name}" for name in _DEVICE)
        cursor = self._connection.execute(
            f"SELECT {names}, key, stage, samples, refined, measured, features "
            f"FROM stage JOIN device ON stage.device = device.id WHERE {condition}",
            [*(astuple(device) if device else ()), *parameters],
        )
        for *identity, key, stage, samples, refined, measured, features in cursor:
            try:
                yield Row(
                    DeviceIdentity(*identity),
                    key,
                    stage,
                    read_samples(samples),
                    bool(refined),
                    read_time(measured),
                    read_features(features),
                )
            except (ValueError, TypeError, RecursionError) as error:
                # A row that another program wrote is ignored, and its stage is measured again.
                _logger.warning("%s has a row that cannot be read, %s: %s", self.path, key, error)

    def _put(self, row: Row, conflict: str) -> None:
        """Insert a row; ``conflict`` says what to do if it exists."""
        device, marks = astuple(row.device), ",".join("?" * len(_DEVICE))
        self._connection.execute(
            f"INSERT INTO device ({', '.join(_DEVICE)}) VALUES ({marks}) ON CONFLICT DO NOTHING",
            device,
        )
        self._connection.execute(
            "INSERT INTO stage (device, key, stage, samples, refined, measured, features) "
            f"SELECT id, ?, ?, ?, ?, ?, ? FROM device WHERE {_same_device()} "
            f"ON CONFLICT (device, key) DO {conflict}",
            [
                row.key,
                row.stage,
                json.dumps(row.samples),
                row.refined,
                row.measured,
                None if row.features is None else json.dumps(row.features),
                *device,
            ],
        )

    def _count(self, table: str) -> int:
        count: int = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return count

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Execute the block as one transaction; writers in other processes wait."""
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise SQLite's errors as DatabaseError."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise DatabaseError(f"The database {self.path} cannot be used: {error}.") from error
        except sqlite3.ProgrammingError as error:
            raise DatabaseError(f"The database {self.path} is closed; open it again.") from error
        except (sqlite3.DatabaseError, ValueError) as error:
            if isinstance(error, DatabaseError):
                raise
            raise DatabaseError(
                f"The database {self.path} is damaged; delete it or name another file."
            ) from error


def _same_device() -> str:
    return " AND ".join(f"device.{name} = ?" for name in _DEVICE)


def _joined(known: Row | None, new: Row) -> Row:
    """Return the new row with the samples of both."""
    if known is None:
        return new
    samples = joined(known.samples, new.samples)
    refined = known.refined or new.refined
    return Row(new.device, new.key, new.stage, samples, refined, new.measured)
