# SPDX-License-Identifier: Apache-2.0
"""A row of the database, and its export as a line of JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeGuard

from ..schedule.partitioning import is_partitioning
from ..support.errors import DatabaseError
from .identity import DeviceIdentity

VERSION = 2

Samples = dict[str, list[float]]
"""Latencies in seconds by work partitioning."""

Features = tuple[float, ...]
"""The features of a stage; see :mod:`tvm_ios.measure.learned.features`."""

_YEAR_10000 = 253402300800.0  # seconds after 1970
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Row:
    """The measurements of a stage on a device.

    Attributes
    ----------
    device : DeviceIdentity
        The device.
    key : str
        The digest of the stage.
    stage : str
        The display name of the stage.
    samples : dict of str to list of float
        Latencies in seconds by work partitioning, in the order in which they were taken; none for
        a partitioning that crashed, hung or computed something wrong.
    refined : bool
        Whether the stage was measured as often as the stages of a schedule.
    measured : float
        The time of the last sample, in seconds since 1970.
    features : tuple of float or None
        The features for the learned cost model; None if they were not computed.
    """

    device: DeviceIdentity
    key: str
    stage: str
    samples: Samples
    refined: bool
    measured: float
    features: Features | None = None


def plausible(samples: Mapping[str, Iterable[float]]) -> Samples:
    """Return the samples that can be latencies: finite numbers above zero.

    A work partitioning that was given without samples, because it failed, is kept.
    """
    given = {partitioning: list(times) for partitioning, times in samples.items()}
    kept = {
        partitioning: [float(s) for s in times if math.isfinite(s) and s > 0.0]
        for partitioning, times in given.items()
    }
    return {name: times for name, times in kept.items() if times or not given[name]}


def joined(known: Mapping[str, Sequence[float]], new: Mapping[str, Sequence[float]]) -> Samples:
    """Return the samples of both; a work partitioning that failed in either has none.

    What crashes or computes something wrong once in a while is no less wrong.
    """
    samples = {partitioning: list(times) for partitioning, times in known.items()}
    for partitioning, times in new.items():
        earlier = samples.get(partitioning, times)
        if times and earlier:
            samples.setdefault(partitioning, []).extend(times)
        else:
            samples[partitioning] = []
    return samples


def succeeded(samples: Mapping[str, Sequence[float]]) -> Samples:
    """Return the samples of the work partitionings that did not fail."""
    return {partitioning: list(times) for partitioning, times in samples.items() if times}


def read_samples(text: str) -> Samples:
    """Parse samples from their stored form.

    Raises
    ------
    ValueError
        If the text is not valid.
    """
    return _samples(json.loads(text))


def read_features(text: str | None) -> Features | None:
    """Parse features from their stored form.

    Raises
    ------
    ValueError
        If the text is not valid.
    """
    return None if text is None else _features(json.loads(text))


def read_time(value: object) -> float:
    """Check a time in seconds since 1970.

    Raises
    ------
    ValueError
        If it is not a time before the year 10000.
    """
    if not _is_time(value) or value >= _YEAR_10000:
        raise ValueError("'measured' is not a time")
    return float(value)


def to_line(row: Row) -> str:
    """Return a row as one line of JSON, without the line end."""
    own = {name: getattr(row, name) for name in _OWN}
    return json.dumps({"version": VERSION, **asdict(row.device), **own})


def from_line(line: str, where: str) -> Row:
    """Parse a line that :func:`to_line` wrote; ``where`` names the line in errors.

    Raises
    ------
    DatabaseError
        If the line is not valid.
    """
    try:
        data = json.loads(line)
        if not isinstance(data, dict):
            raise ValueError("it is not an object")
        version = data.get("version")
        if version != VERSION:
            raise DatabaseError(
                f"{where} has version {version!r}, but this tvm_ios reads version {VERSION}."
            )
        return _row(data)
    except DatabaseError:
        raise
    except KeyError as error:
        raise DatabaseError(
            f"{where} is not an exported measurement: {error} is missing."
        ) from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DatabaseError(f"{where} is not an exported measurement: {error}.") from error


_OWN = tuple(f.name for f in fields(Row) if f.name != "device")


def _row(data: Mapping[str, Any]) -> Row:
    texts = {n: _text(data[n], n) for n in ("cpu", "target", "tvm_ios", "tvm", "key", "stage")}
    key, stage = texts.pop("key"), texts.pop("stage")
    if not _KEY.fullmatch(key):
        raise ValueError("'key' is not a digest")
    threads, refined, measured = data["threads"], data["refined"], data["measured"]
    if isinstance(threads, bool) or not isinstance(threads, int) or not 0 < threads < 1 << 31:
        raise ValueError("'threads' is not a number of threads")
    if not isinstance(refined, bool):
        raise ValueError("'refined' is neither true nor false")
    device = DeviceIdentity(threads=threads, **texts)
    samples, features = _samples(data["samples"]), _features(data["features"])
    return Row(device, key, stage, samples, refined, read_time(measured), features)


def _samples(value: object) -> Samples:
    if not isinstance(value, dict) or not value:
        raise ValueError("'samples' is not an object of lists")
    unknown = sorted(way for way in value if not is_partitioning(way))
    if unknown:
        raise ValueError(f"'samples' contains {unknown[0]!r}, which is not a work partitioning")
    for times in value.values():
        if not isinstance(times, list) or not all(map(_is_time, times)):
            raise ValueError("'samples' contains an impossible latency")
    return {partitioning: [float(t) for t in times] for partitioning, times in value.items()}


def _features(value: object) -> Features | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(map(_is_finite, value)):
        raise ValueError("'features' is not a list of numbers")
    return tuple(float(v) for v in value)


def _is_finite(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value)


def _is_time(value: object) -> TypeGuard[float]:
    return _is_finite(value) and value > 0


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is not a string")
    value.encode()  # raises for invalid Unicode
    return value
