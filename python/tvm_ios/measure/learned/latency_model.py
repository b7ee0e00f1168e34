# SPDX-License-Identifier: Apache-2.0
"""Latencies of stages, predicted by boosted trees, with calibrated lower bounds.

The model predicts the logarithm of a stage's latency over that of its operators in serial order. It
has two parts. The first is fitted once, to the stages of other networks, numbers of workers and
machines. The second is fitted again and again, to what the first leaves unexplained of the stages
that this search has measured. Only these calibrate the bounds: the first part has not seen them.
"""

from __future__ import annotations

import numpy as np

from .calibration import PRIOR, Calibration
from .ensemble import Ensemble
from .training_set import TrainingSet

STATED = 0.9
"""The coverage of the bounds that are stated: nine of ten measurements lie above them."""

_FEWEST = 8  # the minimum number of measurements for a fit
_ENOUGH = 12  # random stages, of which the bounds are calibrated by no others
_TRUSTED = 0.03  # measurement errors below this do not increase the weight further
_DOUBT = 2.0  # error on another network, over that on new stages of the networks that are known
_SHRINK = 10  # measurements that it takes to distrust what was learned from other networks
_EXTREME = 0.7  # ratios beyond a factor of two are clipped
_LEAST = 1e-4  # error that is not doubted: equal latencies leave no error at all
_COMMON = 0.7  # share of the left-out error that is common to all stages, whatever members say


class LatencyModel:
    """A model of latencies that is fitted again as measurements arrive.

    Parameters
    ----------
    seed : int
        The seed of the ensembles. Equal measurements and seeds give equal predictions.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._others: Ensemble | None = None
        self._own: Ensemble | None = None
        self._offset, self._slope = 0.0, 1.0
        self._prior = self._common = PRIOR
        self._calibration = Calibration(np.zeros(0))

    @property
    def fitted(self) -> bool:
        """Return whether the bounds are calibrated by measurements of this search."""
        return self._own is not None

    @property
    def taught(self) -> bool:
        """Return whether the model has learned from other networks."""
        return self._others is not None

    def learn(self, others: TrainingSet) -> None:
        """Fit the first part to stages of other networks and machines."""
        self._others = None
        if len(others) >= _FEWEST:
            target = np.clip(others.log_ratio, -_EXTREME, _EXTREME)
            self._others = Ensemble.fit(others.features, target, _weight(others), self._seed)
            wrong = self._others.left_out.mean(axis=1) - target
            self._prior = min(PRIOR, _DOUBT * float(np.sqrt(np.mean(wrong**2))))
            self._calibration = Calibration(np.zeros(0), self._prior)

    def fit(self, own: TrainingSet) -> None:
        """Fit the second part to stages of this network, and calibrate the bounds by them."""
        if len(own) < _FEWEST:
            return
        target = np.clip(own.log_ratio, -_EXTREME, _EXTREME)
        self._offset, self._slope = 0.0, 1.0
        if self._others is not None:
            self._offset, self._slope = _adapted(self._expected(own.features), target)
        known = self._expected(own.features)
        target = target - known
        self._own = Ensemble.fit(own.features, target, _weight(own), self._seed)
        left_out = self._own.left_out
        predicted = left_out.mean(axis=1)
        wrong = float(np.sqrt(np.mean((predicted - target) ** 2)))
        self._common = max(_COMMON * wrong, _LEAST)
        # Only stages that were chosen at random stand for all others.
        used = own.sampled if own.sampled.sum() >= _ENOUGH else np.ones(len(own), bool)
        scores = (predicted + known - own.log_ratio) / self._scale(left_out)
        self._calibration = Calibration(np.sort(scores[used]), self._prior)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return the expected logarithms, float64 [n]."""
        return self._expected(features) + self._members(features).mean(axis=1)

    def least(self, features: np.ndarray, coverage: float = STATED) -> np.ndarray:
        """Return lower bounds of the logarithms, float64 [n].

        Parameters
        ----------
        features : numpy.ndarray
            float32 [n, features].
        coverage : float
            The share of stages whose measurements are to lie above their bounds; between 0.5 and 1.
        """
        known, members = self._expected(features), self._members(features)
        predicted = known + members.mean(axis=1)
        return self._calibration.lower(predicted, self._scale(members), coverage)

    def _expected(self, features: np.ndarray) -> np.ndarray:
        """Return what the first part predicts, float64 [n]."""
        if self._others is None:
            return np.zeros(len(features))
        learned = self._others.predict(features).mean(axis=1)
        return self._offset + self._slope * learned

    def _members(self, features: np.ndarray) -> np.ndarray:
        """Return what the members of the second part add, float64 [n, members]."""
        if self._own is None:
            return np.zeros((len(features), 2))
        return self._own.predict(features)

    def _scale(self, members: np.ndarray) -> np.ndarray:
        """Return the scale of the error where the members predict this, float64 [n]."""
        return np.sqrt(members.var(axis=1, ddof=1) + self._common**2)


def _adapted(predicted: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    """Return the offset and the slope by which predictions of the first part fit this network.

    They are shrunk to zero and one. If the other networks do not resemble this one, the slope
    approaches zero, and with it what the first part contributes.
    """
    center = predicted - predicted.mean()
    prior = _SHRINK * predicted.var()
    slope = float((center @ target + prior) / (center @ center + prior + 1e-12))
    offset = float((target - slope * predicted).sum() / (len(target) + 1))
    return offset, slope


def _weight(training: TrainingSet) -> np.ndarray:
    return 1.0 / (training.error**2 + _TRUSTED**2)
