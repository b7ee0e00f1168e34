# SPDX-License-Identifier: Apache-2.0
"""Timing of whole models against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import tvm
from tvm import relax

from ...support.progress import progress
from .stages import sensible

T = TypeVar("T")

Timers = Mapping[str, Callable[[], float]]
"""By variant, a function that runs it for a moment and returns the seconds of one run."""

_ROUNDS = 11
_WINDOW = 20e-3  # seconds of one model in one sample
_WARM_UP = 3  # samples by which the number of runs is chosen
_MOST_RUNS = 2000  # of a model in one sample


class Contender(Protocol):
    """A model that is ready to run."""

    def timer(self, number: int) -> Callable[[], float]:
        """Return a function that runs the model ``number`` times and returns seconds per run."""

    def run_once(self) -> None:
        """Run the model, and wait for its result."""


@dataclass
class Timing:
    """The samples of a model, one per round, but several for ``latency``.

    Attributes
    ----------
    back_to_back : list of float
        Seconds per run of runs in direct succession, by the device's events: the inverse of the
        throughput.
    latency : list of float
        Seconds from the call to the result, by the host's clock, each run awaited.
    sm_mhz : list of int or None
        The clock of the device's multiprocessors after each round in MHz; None if it cannot be
        read.
    """

    back_to_back: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    sm_mhz: list[int | None] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median of ``back_to_back``."""
        return float(np.median(self.back_to_back))

    def to_dict(self) -> dict[str, Any]:
        """Return medians, tenth and ninetieth percentiles, and all samples, in milliseconds."""
        return {
            "back_to_back_ms": _spread(self.back_to_back),
            "latency_ms": _spread(self.latency),
            "sm_mhz": self.sm_mhz,
        }


class SharedRounds(Protocol):
    """What times the variants of a function in the same rounds as other implementations of it."""

    @property
    def discarded(self) -> int:
        """The number of samples that were taken while the device's clock was low."""

    def timings(self, others: Mapping[str, Contender]) -> dict[str, Timing]:
        """Time each variant and each of ``others``, by name."""


class Variants(Protocol):
    """The variants of one lowered function."""

    def time(self, work: Callable[[Timers], T]) -> T:
        """Call ``work`` with the timers of the variants, and return its result.

        All samples that ``work`` takes are of one device. If the device is lost, ``work`` is called
        again with the timers of another one.
        """

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple[Any, ...]]) -> Any:
        """Return the outputs of the variant ``name``."""

    def shared_rounds(self) -> SharedRounds | None:
        """Return what times other implementations, too; None if they cannot run on the device."""


def random_inputs(
    func: relax.Function, seed: int, integers: int = 2
) -> list[tvm.runtime.Tensor | tuple[Any, ...]]:
    """Return one random value for each parameter of a function.

    Parameters
    ----------
    func : relax.Function
        The function, whose shapes are static.
    seed : int
        The seed of the values.
    integers : int
        Integer inputs are drawn from ``0 .. integers - 1``; floating-point ones are standard
        normal.
    """
    random = np.random.default_rng(seed)
    return [_random_input(parameter.ty, random, integers) for parameter in func.params]


def _random_input(
    ty: relax.Type, random: np.random.Generator, integers: int
) -> tvm.runtime.Tensor | tuple[Any, ...]:
    if isinstance(ty, relax.TupleType):
        return tuple(_random_input(field, random, integers) for field in ty.fields)
    shape, dtype = [int(size) for size in ty.shape.values], str(ty.dtype)
    if dtype.startswith("float"):
        data = random.standard_normal(shape).astype(dtype)
    else:
        data = random.integers(0, integers, shape).astype(dtype)
    return tvm.runtime.tensor(data)


def window_timers(
    names: Sequence[str], timer_of: Callable[[str, int], Callable[[], float]]
) -> dict[str, Callable[[], float]]:
    """Return a timer for each variant that runs it as often as a window holds.

    Parameters
    ----------
    names : sequence of str
        The variants.
    timer_of : callable
        Returns, for a variant and a number of runs, a function that does so many runs and returns
        the seconds of one.
    """
    return {name: timer_of(name, runs_of_window(timer_of(name, 1))) for name in names}


def runs_of_window(once: Callable[[], float]) -> int:
    """Return how many runs of ``once`` fill a window; 1 if its clock tells nothing."""
    once()  # warms up
    samples: list[float] = []
    for _ in range(_WARM_UP):
        seconds = once()
        if sensible([seconds]):
            samples.append(seconds)
        if seconds >= _WINDOW:
            break  # one such run is dear, and enough
    if not samples:
        return 1
    return int(min(max(1.0, _WINDOW / float(np.median(samples))), _MOST_RUNS))


def rounds(names: Sequence[str]) -> Iterator[str]:
    """Yield each name once per round, in turn."""
    with progress("timing models", _ROUNDS) as advance:
        for _ in range(_ROUNDS):
            yield from names
            advance(1)


def _spread(seconds: list[float]) -> dict[str, Any]:
    low, median, high = (1e3 * float(q) for q in np.quantile(seconds, [0.1, 0.5, 0.9]))
    return {
        "median": round(median, 6),
        "p10": round(low, 6),
        "p90": round(high, 6),
        "samples": [round(1e3 * s, 6) for s in seconds],
    }
