# SPDX-License-Identifier: Apache-2.0
"""Whole models timed against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tvm
from tvm import relax

from ..support.progress import progress

_ROUNDS = 11
_WINDOW = 20e-3  # seconds of one round of one model


class Ways(Protocol):
    """One function lowered in several ways."""

    def seconds(self) -> dict[str, float]:
        """Median seconds of each way, in interleaved rounds: a drift hits all alike."""

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple[Any, ...]]) -> Any:
        """What the way ``name`` computes."""


def random_inputs(
    func: relax.Function, seed: int, integers: int = 2
) -> list[tvm.runtime.Tensor | tuple[Any, ...]]:
    """One value per parameter: standard normal, or as many different integers from 0 on."""
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


def median_rounds(
    names: Sequence[str], timer_of: Callable[[str, int], Callable[[], float]]
) -> dict[str, float]:
    """Median seconds of each way, in interleaved rounds.

    Parameters
    ----------
    names : sequence of str
    timer_of : callable
        From a way and a number of runs to what runs it so often and returns the seconds of one.
    """
    timers = {name: timer_of(name, runs_of_window(timer_of(name, 1))) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    for name in rounds(names):
        samples[name].append(timers[name]())
    return {name: float(np.median(times)) for name, times in samples.items()}


def runs_of_window(once: Callable[[], float]) -> int:
    """How often to run what ``once`` runs for its runs to take as long as a round should."""
    once()  # warms up
    return max(1, int(_WINDOW / once()))


def rounds(names: Sequence[str]) -> Iterator[str]:
    """Each name once a round, in turn."""
    with progress("timing models", _ROUNDS) as advance:
        for _ in range(_ROUNDS):
            yield from names
            advance(1)
