# SPDX-License-Identifier: Apache-2.0
"""The precision ``auto``: bfloat16 as far as the network's answers stay within a tolerance.

The network runs on given or random inputs, in float32 and with all products in bfloat16. If the
difference is larger than the tolerance, the operators that multiply bfloat16 are divided into
segments, and the error that each adds alone is measured. Rounding errors of different operators are
independent, so that their squares add up: the segments that add least are kept in bfloat16, as many
as the tolerance allows, and the result is measured again.

The search may choose other kernels afterwards. Those that multiply bfloat16 round most, so that the
error is measured with these.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm

from ..schedule.rounding import BF16, Rounding, rounds
from ..schedule.schedule import Schedule
from ..support.progress import working
from .scheduler import Scheduler

_SEGMENTS = 6
_BEYOND = float(np.finfo("float32").max)  # an error that no tolerance allows
_logger = logging.getLogger(__name__)


def round_within(
    scheduler: Scheduler, tolerance: float, sample: Sequence[np.ndarray] | None = None
) -> None:
    """Let a scheduler's operators multiply bfloat16 where the answers stay within a tolerance.

    Parameters
    ----------
    scheduler : Scheduler
        One whose operators may have kernels of both precisions. Its stage builder is replaced by
        one whose operators have the kernel that was chosen.
    tolerance : float
        The largest error, in shares of the largest magnitude of an output.
    sample : sequence of numpy.ndarray, optional
        Inputs of the network, on which the error is measured; by default random ones.
    """
    half = scheduler.unsearched()
    rounded = [op.name for op in half.operators if rounds(op.kernel)]
    if not rounded:
        return
    exact = scheduler.stage_builder.exact_kernels()
    with working("measuring the error of bfloat16"):
        trials = _Trials(scheduler, half, exact, sample)
        chosen, rounding = _within(trials, rounded, tolerance)
    left = [name for name in rounded if name not in chosen]
    _logger.info("%s; in float32: %s", rounding, ", ".join(left) or "nothing")
    kernels = {op.name: op.kernel for op in half.operators}
    kernels.update((name, exact[name]) for name in left)
    scheduler.use(scheduler.stage_builder.chosen(kernels, {}))
    scheduler.rounding = rounding


class _Trials:
    """Runs of a network with some operators in bfloat16.

    Parameters
    ----------
    scheduler : Scheduler
    half : Schedule
        The schedule with all of them in bfloat16.
    exact : mapping of str to str
        Their kernels in float32.
    sample : sequence of numpy.ndarray or None
        Inputs of the network; None stands for random ones.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        half: Schedule,
        exact: Mapping[str, str],
        sample: Sequence[np.ndarray] | None,
    ) -> None:
        self._scheduler, self._half, self._exact = scheduler, half, exact
        seeds = (scheduler.options.seed, scheduler.options.seed + 1)
        self._inputs = (
            [scheduler.random_inputs(seed) for seed in seeds]
            if sample is None
            else [list(map(tvm.runtime.tensor, sample))]
        )
        self._expected: list[list[np.ndarray]] = []
        self._expected = self._run(())

    def rounding(self, rounded: Collection[str], tolerance: float) -> Rounding:
        """Return how far the answers are off if ``rounded`` operators multiply bfloat16."""
        errors, same = [], []
        for expected, actual in zip(self._expected, self._run(rounded), strict=True):
            errors.append(max(map(_error, expected, actual), default=0.0))
            same.append(_same_top(expected[0], actual[0]))
        return Rounding(max(errors), float(np.mean(same)), tolerance)

    def _schedule(self, rounded: Collection[str]) -> Schedule:
        """Return the schedule in which ``rounded`` operators multiply bfloat16, others float32.

        Row strips of one kernel may not be those of another, so that its stages are its own.
        """
        variants = {**self._exact, **dict.fromkeys(rounded, BF16)}
        kernels = {
            op.name: variants[op.name] if rounds(op.kernel) else op.kernel
            for op in self._half.operators
        }
        return self._scheduler.unsearched(kernels)

    def _run(self, rounded: Collection[str]) -> list[list[np.ndarray]]:
        """Return the outputs on each of the inputs."""
        variants = self._scheduler.compile({"trial": self._schedule(rounded)})
        return [list(_arrays(variants("trial", given))) for given in self._inputs]


def _within(
    trials: _Trials, rounded: Sequence[str], tolerance: float
) -> tuple[Sequence[str], Rounding]:
    """Return the operators that may multiply bfloat16, and the error that they make."""
    rounding = trials.rounding(rounded, tolerance)
    if rounding.error <= tolerance:
        return rounded, rounding
    segments = [list(part) for part in np.array_split(list(rounded), _SEGMENTS) if len(part)]
    errors = [trials.rounding(segment, tolerance).error for segment in segments]
    order = sorted(range(len(segments)), key=errors.__getitem__)
    count = sum(
        math.sqrt(sum(errors[i] ** 2 for i in order[: n + 1])) <= tolerance
        for n in range(len(order))
    )
    for kept in range(count, 0, -1):
        chosen = [name for i in sorted(order[:kept]) for name in segments[i]]
        rounding = trials.rounding(chosen, tolerance)
        if rounding.error <= tolerance:
            return chosen, rounding
    return [], Rounding(0.0, 1.0, tolerance)


def _arrays(value: Any) -> Iterator[np.ndarray]:
    """Yield the tensors of nested outputs."""
    if hasattr(value, "numpy"):
        yield value.numpy()
        return
    for part in value:
        yield from _arrays(part)


def _error(expected: np.ndarray, actual: np.ndarray) -> float:
    """Return the largest difference, in shares of the largest magnitude."""
    finite = np.isfinite(expected)
    if expected.dtype.kind != "f" or not finite.any():
        return float(not np.array_equal(expected, actual, equal_nan=expected.dtype.kind == "f"))
    if not np.array_equal(finite, np.isfinite(actual)):
        return _BEYOND
    difference = np.abs(expected[finite].astype("float64") - actual[finite]).max()
    largest = np.abs(expected[finite].astype("float64")).max()
    return float(difference / largest) if largest else float(difference)


def _same_top(expected: np.ndarray, actual: np.ndarray) -> float:
    """Return the share of rows with the same largest element."""
    if not expected.ndim or not expected.size:
        return 1.0
    return float(np.mean(expected.argmax(-1) == actual.argmax(-1)))
