# SPDX-License-Identifier: Apache-2.0
"""Latencies of stages, predicted by boosted trees, with an estimate of the prediction error.

The trees predict the logarithm of a stage's latency over that of its operators in serial order.
Several models are fitted, each to a sample drawn with replacement from the measurements (Breiman,
*Bagging Predictors*, 1996). The error estimate has two parts. The members disagree where nothing
similar was measured. Their error on stages outside their samples, less the measurement error, is
common to all of them.
"""

from __future__ import annotations

import numpy as np
import xgboost

_MEMBERS = 8
_ROUNDS = 60
_PARAMETERS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_bin": 64,
    "max_depth": 4,
    "eta": 0.12,
    "min_child_weight": 2,
    "lambda": 1.0,
    "colsample_bytree": 0.7,
    "base_score": 0.0,
    "nthread": 1,  # deterministic: sums have one order
    "verbosity": 0,
}
_PRIOR = 0.10  # standard deviation of the logarithm before the first fit
_PRIOR_WEIGHT = 4  # the prior counts as this many measurements
_FEWEST = 8  # the minimum number of measurements for a fit
_TRUSTED = 0.03  # measurement errors below this do not increase the weight further
_EXTREME = 0.7  # ratios beyond a factor of two are clipped


class LatencyModel:
    """An ensemble of boosted trees that is fitted again as measurements arrive.

    Parameters
    ----------
    seed : int
        The seed of the members' samples. Equal measurements and seeds give equal predictions.
    lcb_factor : float
        The lower-confidence-bound factor: how many standard deviations a bound lies below the mean.
    """

    def __init__(self, seed: int, lcb_factor: float) -> None:
        self._seed, self._lcb_factor = seed, lcb_factor
        self._members: list[xgboost.Booster] = []
        self._bias = _PRIOR

    def fit(self, features: np.ndarray, log_ratio: np.ndarray, error: np.ndarray) -> None:
        """Fit the ensemble to measured stages.

        Parameters
        ----------
        features : numpy.ndarray
            float32 [n, features].
        log_ratio : numpy.ndarray
            float64 [n]: the logarithm of the latency over that of the operators in serial order.
        error : numpy.ndarray
            float64 [n]: the standard errors of ``log_ratio``.
        """
        count = len(log_ratio)
        if count < _FEWEST:
            return
        random = np.random.default_rng(self._seed)
        target = np.clip(log_ratio, -_EXTREME, _EXTREME)
        weight = 1.0 / (error**2 + _TRUSTED**2)
        self._members, excess, trials = [], 0.0, 0.0
        for number in range(_MEMBERS):
            drawn = random.integers(0, count, count)
            data = _matrix(features[drawn], target[drawn], weight[drawn])
            parameters = {**_PARAMETERS, "seed": self._seed + number}
            member = xgboost.train(parameters, data, _ROUNDS)
            self._members.append(member)
            unseen = np.setdiff1d(np.arange(count), drawn)
            if len(unseen):
                wrong = member.predict(_matrix(features[unseen])) - target[unseen]
                excess += float(np.sum(weight[unseen] * (wrong**2 - error[unseen] ** 2)))
                trials += float(np.sum(weight[unseen]))
        self._bias = self._pooled(excess / _MEMBERS, trials / _MEMBERS)

    def _pooled(self, excess: float, weight: float) -> float:
        """Return the standard deviation of the members' common error, shrunk to the prior."""
        prior = _PRIOR_WEIGHT / _TRUSTED**2
        variance = (max(excess, 0.0) + prior * _PRIOR**2) / (weight + prior)
        return float(np.sqrt(variance))

    def least(self, features: np.ndarray) -> np.ndarray:
        """Return lower confidence bounds of the logarithm that is learned, float64 [n]."""
        if not self._members:
            return np.full(len(features), -self._lcb_factor * _PRIOR)
        data = _matrix(features)
        each = np.stack([member.predict(data) for member in self._members]).astype("float64")
        deviation = np.sqrt(each.var(axis=0) + self._bias**2)
        return each.mean(axis=0) - self._lcb_factor * deviation


def _matrix(
    features: np.ndarray, target: np.ndarray | None = None, weight: np.ndarray | None = None
) -> xgboost.DMatrix:
    return xgboost.DMatrix(features, target, weight=weight, nthread=1)
