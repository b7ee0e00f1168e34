# SPDX-License-Identifier: Apache-2.0
"""The training data of the latency model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...database import Row
from ...graph.dag import Candidate
from ..cache import MeasurementCache, WorkloadKey
from ..cost import MeasuredCost, Observation
from ..timing import fastest, relative_error
from .features import FEATURES, StageFeatures

_SECONDS = FEATURES.index("seconds")


@dataclass(frozen=True)
class TrainingSet:
    """Features of stages and their measured latencies.

    Attributes
    ----------
    features : numpy.ndarray
        float32 [n, features].
    log_ratio, error : numpy.ndarray
        float64 [n]: the logarithm of the latency over that of the operators in serial order, and
        its standard error.
    """

    features: np.ndarray
    log_ratio: np.ndarray
    error: np.ndarray


class Examples:
    """Measured stages of this network, and of other networks on this device in the database.

    Parameters
    ----------
    cache : MeasurementCache
        The measurement cache.
    """

    def __init__(self, cache: MeasurementCache) -> None:
        self._cache = cache
        rows = cache.described().items()
        self._others = {k: r for k, r in rows if r.features and len(r.features) == len(FEATURES)}
        self._own: dict[str, Candidate] = {}
        self._new: dict[WorkloadKey, Candidate] = {}

    def __len__(self) -> int:
        return len(self._own) + len(self._others)

    @property
    def looked_up(self) -> bool:
        """Return whether the database has stages that this search has not looked up."""
        return bool(self._others)

    def add(self, candidate: Candidate, observation: Observation) -> None:
        """Add a stage that was measured or found in the database."""
        digest = self._cache.digest(observation.workload)
        if digest in self._own:
            return
        self._own[digest] = candidate
        if self._others.pop(digest, None) is None:
            self._new[observation.workload] = candidate

    def training_set(self, features: StageFeatures, measured: MeasuredCost) -> TrainingSet:
        """Return all examples, in an order that does not depend on how they were found."""
        own = list(self._own.values())
        observed = [o for c in own if (o := measured.observation(c)) is not None]
        assert len(observed) == len(own), "they were measured"
        rows = features(own)
        parts = [
            TrainingSet(
                rows,
                np.log([o.seconds for o in observed]) - rows[:, _SECONDS],
                np.array([o.error for o in observed], "float64"),
            ),
            _from_rows(list(self._others.values())),
        ]
        order = np.argsort([*self._own, *self._others])
        return TrainingSet(
            *(
                np.concatenate([getattr(part, name) for part in parts])[order]
                for name in ("features", "log_ratio", "error")
            )
        )

    def describe(self, features: StageFeatures) -> None:
        """Store the features of new stages in the database."""
        if not self._new:
            return
        rows = features(list(self._new.values())).astype("float64").tolist()
        self._cache.describe(dict(zip(self._new, rows, strict=True)))
        self._new.clear()


def _from_rows(rows: Sequence[Row]) -> TrainingSet:
    features = np.array([row.features for row in rows], "float32").reshape(-1, len(FEATURES))
    seconds = np.array([fastest(row.samples)[0] for row in rows], "float64")
    errors = np.array([relative_error(row.samples) for row in rows], "float64")
    return TrainingSet(features, np.log(seconds) - features[:, _SECONDS], errors)
