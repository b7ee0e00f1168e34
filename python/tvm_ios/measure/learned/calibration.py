# SPDX-License-Identifier: Apache-2.0
"""Calibrated lower bounds: conformal prediction.

A score says how far a measurement that a model had not seen lay below its prediction, in units of
the scale that the model gives its error. If the score of a new measurement is as likely to have any
rank among the known scores (the measurements are exchangeable), then it is at most the k-th
smallest of n scores with probability k / (n + 1), whatever the distribution of the errors is
(Vovk, Gammerman and Shafer, *Algorithmic Learning in a Random World*, 2005). The scale only decides
which bounds are wide and which are narrow (Papadopoulos, Gammerman and Vovk, *Normalized
Nonconformity Measures for Regression Conformal Prediction*, 2008). The scores come from the
left-out parts of a cross-validation, as in CV+ (Barber and others, *Predictive Inference with the
Jackknife+*, 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

PRIOR = 0.25
"""The standard deviation of the logarithm of a stage's latency over that of its operators in serial
order, as far as nothing was measured: of the stages of the zoo's networks."""


@dataclass(frozen=True)
class Calibration:
    """The scores of measurements that a model had not seen.

    Attributes
    ----------
    scores : numpy.ndarray
        float64 [n], sorted: (prediction - measurement) / scale.
    prior : float
        The standard deviation of the error while there are too few scores.
    """

    scores: np.ndarray
    prior: float = PRIOR

    def lower(self, predicted: np.ndarray, scale: np.ndarray, coverage: float) -> np.ndarray:
        """Return lower bounds that hold for this share of new measurements.

        If there are too few scores for that coverage, the distance to the prediction is that of the
        largest score, and at least that of a normal error.

        Parameters
        ----------
        predicted, scale : numpy.ndarray
            float64 [n].
        coverage : float
            Between 0.5 and 1.
        """
        count = len(self.scores)
        rank = math.ceil((count + 1) * coverage)
        if rank <= count:
            return predicted - self.scores[rank - 1] * scale
        largest = self.scores[-1] if count else 0.0
        expected = self.prior * NormalDist().inv_cdf(coverage)
        return predicted - np.maximum(largest * scale, expected)


@dataclass
class HeldBack:
    """How many measurements lie above the bounds that were stated before they were taken.

    Attributes
    ----------
    above, count : int
    """

    above: int = 0
    count: int = 0

    def add(self, above: bool) -> None:
        """Count one measurement."""
        self.above += above
        self.count += 1

    @property
    def coverage(self) -> float:
        """The share of the measurements that lie above their bounds; NaN if there is none."""
        return self.above / self.count if self.count else math.nan
