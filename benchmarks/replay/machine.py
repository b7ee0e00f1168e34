# SPDX-License-Identifier: Apache-2.0
"""A simulated machine: its own time, and what makes it slower at times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Slowdown = Callable[[np.ndarray], np.ndarray]
"""The factors by which everything takes longer at some moments, float64 [n] of seconds."""

_OUTLIERS, _OUTLIER = 0.02, 1.5  # the share of samples that something disturbs, and by how much


@dataclass
class Machine:
    """A machine whose time passes only when it works or sleeps.

    Attributes
    ----------
    slowdowns : sequence of Slowdown
        What makes it slower.
    jitter : float
        The standard deviation of the logarithm of each time; 0 for an exact machine, which has no
        outliers either.
    preempted : float
        The share of times during which a worker is preempted: three times as long.
    seed : int
        The seed of all noise.
    now : float
        Seconds since the start.
    """

    slowdowns: Sequence[Slowdown] = ()
    jitter: float = 0.0
    preempted: float = 0.0
    seed: int = 0
    now: float = 0.0
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def work(self, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Do pieces of work one after another.

        Parameters
        ----------
        seconds : numpy.ndarray
            float64 [n]: what each takes on the machine undisturbed.

        Returns
        -------
        seconds : numpy.ndarray
            float64 [n]: what each took.
        preempted : numpy.ndarray
            bool [n]: where a worker was preempted.
        """
        taken = np.array(seconds, "float64")
        (begin,) = self._slowdown(np.array([self.now]))
        ends = np.cumsum(taken)
        taken *= self._slowdown(self.now + begin * np.concatenate([[0.0], ends[:-1]]))
        preempted = np.zeros(len(taken), bool)
        if self.jitter:
            taken *= np.exp(self.jitter * self._random.standard_normal(len(taken)))
            taken[self._random.random(len(taken)) < _OUTLIERS] *= _OUTLIER
        if self.preempted:
            preempted = self._random.random(len(taken)) < self.preempted
            taken[preempted] *= 3.0
        self.now += float(taken.sum())
        return taken, preempted

    def _slowdown(self, times: np.ndarray) -> np.ndarray:
        factors = np.ones(len(times))
        for slowdown in self.slowdowns:
            factors *= slowdown(times)
        return factors


@dataclass
class Neighbour:
    """Another program, which slows everything down while it runs.

    Attributes
    ----------
    seed : int
        Decides when it runs.
    factor : float
        How much longer everything takes meanwhile.
    pause, burst : float
        The mean lengths of its absences and of its presences, in seconds.
    """

    seed: int
    factor: float = 2.0
    pause: float = 0.4
    burst: float = 0.1
    _ends: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def __call__(self, times: np.ndarray) -> np.ndarray:
        while self._ends[-1] <= times.max():
            random = np.random.default_rng((self.seed, len(self._ends)))
            lengths = random.exponential([self.pause, self.burst], (64, 2)).ravel()
            self._ends = np.concatenate([self._ends, self._ends[-1] + np.cumsum(lengths)])
        # Entry 0 is the start: pauses end at odd entries, bursts at even ones.
        present = np.searchsorted(self._ends, times, side="right") % 2 == 0
        return np.where(present, self.factor, 1.0)


def drift(amount: float = 0.15, period: float = 30.0) -> Slowdown:
    """Return a clock that becomes slower by ``amount`` and fast again, in ``period`` seconds."""
    return lambda times: 1.0 + amount * (0.5 - 0.5 * np.cos(2 * np.pi * times / period))


def jump(moment: float, factor: float = 10.0) -> Slowdown:
    """Return a machine that is slower from one moment on."""
    return lambda times: np.where(times >= moment, factor, 1.0)


MACHINES: Mapping[str, Callable[[int], Machine]] = {
    "none": lambda seed: Machine(seed=seed),
    "noise": lambda seed: Machine(jitter=0.03, preempted=0.01, seed=seed),
    "bursts": lambda seed: Machine([Neighbour(seed)], jitter=0.01, preempted=0.01, seed=seed),
    "drift": lambda seed: Machine([drift()], jitter=0.01, seed=seed),
}
"""The machines of the kinds of noise, by a seed."""
