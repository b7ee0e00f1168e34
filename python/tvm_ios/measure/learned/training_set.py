# SPDX-License-Identifier: Apache-2.0
"""Measured stages, as the latency model learns from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
    sampled : numpy.ndarray
        bool [n]: whether a stage was chosen at random. The others were chosen because they promised
        much, which makes their latencies differ from the predictions in another way.
    """

    features: np.ndarray
    log_ratio: np.ndarray
    error: np.ndarray
    sampled: np.ndarray

    def __len__(self) -> int:
        return len(self.log_ratio)

    def joined(self, other: TrainingSet) -> TrainingSet:
        """Return the stages of both."""
        return TrainingSet(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.log_ratio, other.log_ratio]),
            np.concatenate([self.error, other.error]),
            np.concatenate([self.sampled, other.sampled]),
        )

    def ordered(self, order: np.ndarray) -> TrainingSet:
        """Return the stages in this order, int64 [n]."""
        return TrainingSet(
            self.features[order], self.log_ratio[order], self.error[order], self.sampled[order]
        )
