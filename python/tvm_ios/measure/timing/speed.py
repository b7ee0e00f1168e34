# SPDX-License-Identifier: Apache-2.0
"""The machine's speed at the time of a measurement, by which latencies become comparable.

The clock frequency changes, and other programs take their share of cores and memory: a neighbour
can halve the speed for minutes. Known work is therefore timed beside every run of stages: some
arithmetic in registers, and a copy in memory. Runs during which the speed changed, or at which it
was far from the usual one, are taken again. The others are scaled to one speed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..protocol import TimedRuns

_logger = logging.getLogger(__name__)

_EQUAL = 0.10  # speeds are comparable up to this relative difference
_EQUAL_COPIES = 0.30  # a copy's own time varies more: its pages and the shared cache differ
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds before runs are timed again
_LOOKS = 2  # timings that only show the machine's speed, before the first one that counts
_SHORTEST, _LONGEST = 0.5, 20.0  # seconds that all these pauses may take together


@dataclass
class MachineSpeed:
    """The usual speed of the machine, in seconds of the known arithmetic.

    Attributes
    ----------
    base : float or None
        The speed that all latencies are scaled to; None until something was timed. An earlier
        search may have left it in the database.
    usual : float or None
        The fastest of the speeds at which runs are accepted.
    waited : float
        Seconds that were spent on waiting for the usual speed.
    sleep : callable
        Waits so many seconds.
    """

    base: float | None = None
    usual: float | None = None
    waited: float = 0.0
    sleep: Callable[[float], None] = time.sleep
    _slower: list[float] = field(default_factory=list)  # usual speeds that did not pass by waiting
    _ran: float = 0.0  # seconds of all runs
    _accepted: list[float] = field(default_factory=list)

    @property
    def _patience(self) -> float:
        """The seconds that all pauses may take together: a quick search does not wait for long."""
        return min(_SHORTEST + 2 * self._ran, _LONGEST)

    @property
    def error(self) -> float:
        """The relative standard error of the scale of timed runs."""
        logarithms = np.log(self._accepted[-64:])
        if len(logarithms) < 2:
            return 0.0
        return 1.4826 * float(np.median(np.abs(logarithms - np.median(logarithms))))

    def steady(self, take: Callable[[], TimedRuns], warm_up: int = 1) -> np.ndarray:
        """Return latencies at the base speed, without those of the first runs, which warm up.

        Parameters
        ----------
        take : callable
            Times the runs. It is called again while the machine's speed is not the usual one.
        warm_up : int
            The number of runs that warm up.

        Returns
        -------
        numpy.ndarray
            float64 [runs - warm_up, stages], in seconds; NaN where no latency is known.
        """
        if self.usual is None:
            self._look(take)
        runs = take().after(warm_up)
        for pause in _PAUSES:
            self._ran += float(np.nansum(runs.seconds))
            if self._acceptable(runs) or self.waited >= self._patience:
                break
            self._wait(pause)
            runs = take().after(warm_up)
        else:
            self._get_used_to(runs)
        return self._scaled(runs)

    def _look(self, take: Callable[[], TimedRuns]) -> None:
        """Find the usual speed: the machine may be busy just at the beginning."""
        for pause in _PAUSES[:_LOOKS]:
            self._acceptable(take())
            self.sleep(pause)

    def _acceptable(self, runs: TimedRuns) -> bool:
        """Return whether most runs took place at the usual speed."""
        speed = _speed_of(runs)
        if speed is None:
            return True  # impossible times do not become possible by waiting
        if self.usual is None or speed < self.usual / (1 + _EQUAL):
            self.usual = speed  # what was usual before was a busy machine
            self._slower.clear()
        near = any(_equal(speed, known) for known in (self.usual, *self._slower))
        steady = _steady_runs(runs)
        return near and 2 * int(steady.sum()) >= len(steady)

    def _wait(self, pause: float) -> None:
        if self.waited == 0.0:
            _logger.info("The machine is busy: measurements are repeated, which takes longer.")
        self.sleep(pause)
        self.waited += pause
        if self.waited >= _LONGEST:
            _logger.warning(
                "The machine stays busy, so that latencies are less exact; search again when it is "
                "idle."
            )

    def _get_used_to(self, runs: TimedRuns) -> None:
        """Take the speed of these runs for usual, too, as waiting did not help.

        A machine that changes between two speeds for minutes is waited for once.
        """
        speed = _speed_of(runs)
        if speed is not None:
            self._slower.append(speed)

    def _scaled(self, runs: TimedRuns) -> np.ndarray:
        """Return latencies at the base speed, without those that were disturbed if others exist."""
        speed = _speed_of(runs)
        if speed is None:
            return np.full(runs.seconds.shape, np.nan)
        self.base = self.base or self.usual or speed
        self._accepted.append(speed)
        seconds = runs.seconds * (self.base / speed)
        undisturbed = _steady_runs(runs)[:, None] & ~runs.preempted
        kept = np.where(undisturbed, seconds, np.nan)
        # Where all runs were disturbed, the fastest was it least.
        nothing = np.isnan(kept).all(axis=0)
        kept[-1, nothing] = seconds[:, nothing].min(axis=0)
        return kept


def _equal(speed: float, known: float) -> bool:
    return known / (1 + _EQUAL) <= speed <= known * (1 + _EQUAL)


def _speed_of(runs: TimedRuns) -> float | None:
    """Return the typical seconds of the arithmetic; None if they cannot be a time."""
    known = np.concatenate([runs.arithmetic.ravel(), runs.copies])
    if known.size == 0 or not np.isfinite(known).all() or (known <= 0).any():
        return None
    return float(np.median(runs.arithmetic))


def _steady_runs(runs: TimedRuns) -> np.ndarray:
    """Return in which runs the speed did not change, bool [runs]."""
    before, after = runs.copies
    if max(before, after) > min(before, after) * (1 + _EQUAL_COPIES):
        return np.zeros(len(runs.arithmetic), bool)
    slow, fast = runs.arithmetic.max(axis=1), runs.arithmetic.min(axis=1)
    return np.asarray(slow <= fast * (1 + _EQUAL), bool)
