# SPDX-License-Identifier: Apache-2.0
"""Latencies of stages, predicted by boosted trees, and how far the predictions may be off.

The trees predict the logarithm of a stage's latency over that of its operators one after another.
Several are fitted, each to a sample drawn with replacement from what was measured (Breiman,
*Bagging Predictors*, 1996). Where they disagree, nothing similar was measured; and what each one
gets wrong of the stages that it has not seen, the error of those measurements taken off, is how
wrong all of them are of similar ones.
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
    "nthread": 1,  # sums in one order: the same trees every time
    "verbosity": 0,
}
_PRIOR = 0.10  # standard deviation of the logarithm where nothing was measured yet
_PRIOR_WEIGHT = 4  # measurements that the prior counts for
_FEWEST = 8  # measurements that are worth fitting to
_TRUSTED = 0.03  # error of a measurement below which it counts no more than others
_EXTREME = 0.7  # what is twice as fast or slow is like what is ten times so


class LatencyModel:
    """An ensemble of boosted trees, fitted again whenever more was measured.

    Parameters
    ----------
    seed : int
        Of the samples that its members are fitted to. Equal measurements and seeds give equal
        predictions.
    caution : float
        How many standard deviations a bound lies below what is expected.
    """

    def __init__(self, seed: int, caution: float) -> None:
        self._seed, self._caution = seed, caution
        self._members: list[xgboost.Booster] = []
        self._bias = _PRIOR

    def fit(self, features: np.ndarray, log_ratio: np.ndarray, error: np.ndarray) -> None:
        """Learn from measured stages.

        Parameters
        ----------
        features : numpy.ndarray
            float32 [n, features]
        log_ratio : numpy.ndarray
            float64 [n]: the logarithm of the latency over that of the operators apart.
        error : numpy.ndarray
            float64 [n]: the standard errors of these.
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
        """The standard deviation of what all members get wrong, drawn towards the prior."""
        prior = _PRIOR_WEIGHT / _TRUSTED**2
        variance = (max(excess, 0.0) + prior * _PRIOR**2) / (weight + prior)
        return float(np.sqrt(variance))

    def least(self, features: np.ndarray) -> np.ndarray:
        """What stages are thought to exceed, as the logarithm that is learned; float64 [n]."""
        if not self._members:
            return np.full(len(features), -self._caution * _PRIOR)
        data = _matrix(features)
        each = np.stack([member.predict(data) for member in self._members]).astype("float64")
        deviation = np.sqrt(each.var(axis=0) + self._bias**2)
        return each.mean(axis=0) - self._caution * deviation


def _matrix(
    features: np.ndarray, target: np.ndarray | None = None, weight: np.ndarray | None = None
) -> xgboost.DMatrix:
    return xgboost.DMatrix(features, target, weight=weight, nthread=1)
