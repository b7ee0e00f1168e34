# SPDX-License-Identifier: Apache-2.0
"""The training data of the latency model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...database import Row
from ...database.row import succeeded
from ...graph.dag import Candidate
from ..cache import MeasurementCache, WorkloadKey
from ..cost import MeasuredCost, Observation
from ..timing.stages import fastest, relative_error
from .features import FEATURES, StageFeatures
from .layout import feature_layout
from .training_set import TrainingSet

_HEAD = 4
"""Numbers before the features in a row: their layout, the network, the serial seconds, and whether
the stage was chosen at random."""


class Examples:
    """Measured stages of this network, and of other networks and devices in the database.

    A stage that was measured on another device is an example here, but never a price: prices are
    looked up by device, see :class:`MeasurementCache`.

    Parameters
    ----------
    cache : MeasurementCache
        The measurement cache.
    network : int
        A number below 2^53 that identifies the network.
    """

    def __init__(self, cache: MeasurementCache, network: int) -> None:
        self._cache, self._network = cache, network
        rows = [row for row in cache.described() if _is_current(row)]
        here = {row.key: row for row in rows if row.device == cache.device}
        self._earlier = {key: row for key, row in here.items() if self._is_own(row)}
        self._others = [row for row in rows if not self._is_own(row)]
        self._foreign = here.keys() - self._earlier.keys()  # prices, but others' examples
        self._own: dict[str, Candidate] = {}
        self._sampled: set[str] = set()
        self._new: dict[WorkloadKey, Candidate] = {}

    def __len__(self) -> int:
        """Return the number of examples of this network."""
        return len(self._own) + len(self._earlier)

    @property
    def looked_up(self) -> bool:
        """Return whether the database has stages that this search has not looked up."""
        return bool(self._earlier or self._foreign)

    def add(self, candidate: Candidate, observation: Observation, sampled: bool = False) -> None:
        """Add a stage that was measured or found in the database.

        A stage that another network has described stays among its examples: the model has learned
        it there, and would find here that it predicts it well.

        Parameters
        ----------
        candidate : Candidate
        observation : Observation
        sampled : bool
            Whether the stage was chosen at random.
        """
        digest = self._cache.digest(observation.workload)
        if digest in self._own or digest in self._foreign:
            return
        self._own[digest] = candidate
        earlier = self._earlier.pop(digest, None)
        if earlier is None:
            self._new[observation.workload] = candidate
        if sampled if earlier is None else _was_sampled(earlier):
            self._sampled.add(digest)

    def own(self, features: StageFeatures, measured: MeasuredCost) -> TrainingSet:
        """Return the stages of this network, in an order that does not depend on the search's."""
        own = list(self._own.values())
        observed = [o for c in own if (o := measured.observation(c)) is not None]
        assert len(observed) == len(own), "they were measured"
        latencies = np.array([o.seconds for o in observed], "float64")
        errors = np.array([o.error for o in observed], "float64")
        sampled = np.array([digest in self._sampled for digest in self._own], bool)
        log_ratio = np.log(latencies) - np.log(np.maximum(features.serial(own), 1e-9))
        found = TrainingSet(features(own), log_ratio, errors, sampled)
        known = found.joined(_from_rows(list(self._earlier.values())))
        return known.ordered(np.argsort([*self._own, *self._earlier]))

    def others(self) -> TrainingSet:
        """Return the stages of other networks and devices, in the order of their keys."""
        return _from_rows(sorted(self._others, key=lambda row: (row.device, row.key)))

    def describe(self, features: StageFeatures) -> None:
        """Store the features of new stages in the database."""
        if not self._new:
            return
        candidates = list(self._new.values())
        head = np.zeros((len(candidates), _HEAD))
        head[:, 0], head[:, 1] = feature_layout(), self._network
        head[:, 2] = features.serial(candidates)
        head[:, 3] = [self._cache.digest(workload) in self._sampled for workload in self._new]
        rows = np.concatenate([head, features(candidates)], axis=1, dtype="float64").tolist()
        self._cache.describe(dict(zip(self._new, rows, strict=True)))
        self._new.clear()

    def _is_own(self, row: Row) -> bool:
        """Return whether a row is one of this network on this device."""
        described = row.features or ()
        return row.device == self._cache.device and described[1] == self._network


def _is_current(row: Row) -> bool:
    """Return whether the row has samples, and the features that this code computes."""
    found = row.features
    if not succeeded(row.samples) or found is None or len(found) != _HEAD + len(FEATURES):
        return False
    return found[0] == feature_layout() and found[2] > 0


def _was_sampled(row: Row) -> bool:
    return bool(row.features and row.features[3])


def _from_rows(rows: Sequence[Row]) -> TrainingSet:
    described = np.array([row.features for row in rows], "float64")
    described = described.reshape(-1, _HEAD + len(FEATURES))
    samples = [succeeded(row.samples) for row in rows]
    seconds = np.array([fastest(its)[0] for its in samples], "float64")
    return TrainingSet(
        described[:, _HEAD:].astype("float32"),
        np.log(seconds) - np.log(described[:, 2]),
        np.array([relative_error(its) for its in samples], "float64"),
        described[:, 3] > 0,
    )
