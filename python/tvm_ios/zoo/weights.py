# SPDX-License-Identifier: Apache-2.0
"""Random weights that keep the activations of a deep network of order one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BIAS_DEVIATION = 0.05
NORM_SPREAD = 0.2


class NormStatistics(NamedTuple):
    """The statistics of a batch norm: float32 vectors with one element per channel."""

    gamma: np.ndarray
    beta: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class Filters(NamedTuple):
    """The weights of a convolution, [out, in / groups, height, width], and its bias if any."""

    weight: np.ndarray
    bias: np.ndarray | None


class LstmWeights(NamedTuple):
    """The weights of one direction of an LSTM, whose gates i, f, g, o are one after another.

    They are [features, 4 * hidden], [hidden, 4 * hidden] and [4 * hidden].
    """

    read: np.ndarray
    recurrent: np.ndarray
    bias: np.ndarray


class Weights:
    """A stream of float32 weights that depends on the seed and on earlier requests.

    Parameters
    ----------
    seed : int
        Seed of the generator, not negative.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def kernel(self, shape: tuple[int, int, int, int]) -> np.ndarray:
        """Draw a convolution's weight of shape (out, in / groups, height, width)."""
        return self._he_normal(shape, fan_in=int(np.prod(shape[1:])))

    def dense(self, inputs: int, features: int) -> np.ndarray:
        """Draw a dense layer's weight of shape (inputs, features)."""
        return self._he_normal((inputs, features), fan_in=inputs)

    def lstm(self, features: int, hidden: int) -> LstmWeights:
        """Draw the weights of one direction of an LSTM."""
        read, recurrent = (self.dense(size, 4 * hidden) for size in (features, hidden))
        return LstmWeights(read, recurrent, self.bias(4 * hidden))

    def bias(self, channels: int) -> np.ndarray:
        """Draw a small bias of shape (channels,)."""
        return self.normal((channels,), BIAS_DEVIATION)

    def table(self, rows: int, features: int) -> np.ndarray:
        """Draw the vectors of a lookup table, of shape (rows, features), elements of order one."""
        return self.normal((rows, features), 1.0)

    def mixture(self, count: int) -> np.ndarray:
        """Draw positive factors, of shape (count,), for a sum about as large as each summand."""
        return self.around_one(count) / np.float32(np.sqrt(count))

    def norm_statistics(self, channels: int, gain: float) -> NormStatistics:
        """Draw statistics with which a batch norm multiplies by about `gain`."""
        return NormStatistics(
            gamma=np.float32(gain) * self.around_one(channels),
            beta=self.bias(channels),
            mean=self.bias(channels),
            variance=self.around_one(channels),
        )

    def around_one(self, channels: int) -> np.ndarray:
        """Draw factors close to one, of shape (channels,)."""
        uniform = self._generator.random(channels, dtype=np.float32)
        return 1 + NORM_SPREAD * (2 * uniform - 1)

    def _he_normal(self, shape: tuple[int, ...], fan_in: int) -> np.ndarray:
        """Draw with variance 2 / fan_in, which a ReLU halves (He et al., arXiv 1502.01852)."""
        return self.normal(shape, np.sqrt(2.0 / fan_in))

    def normal(self, shape: tuple[int, ...], deviation: float) -> np.ndarray:
        return self._generator.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
