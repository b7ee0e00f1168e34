# SPDX-License-Identifier: Apache-2.0
"""Whole models timed against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..threads import with_workers
from .progress import progress

_ROUNDS = 11
_WINDOW = 20e-3  # seconds of one round of one model


class CompiledWays:
    """One function lowered in several ways and compiled.

    Parameters
    ----------
    mod : tvm.IRModule
        Holds a function for each way; equal kernels of theirs are one.
    names : sequence of str
        The functions.
    inputs : sequence of tensors
        What the ways are timed with.
    target : tvm.target.Target
    workers : int
    """

    def __init__(
        self,
        mod: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[tvm.runtime.Tensor | tuple],
        target: tvm.target.Target,
        workers: int,
    ) -> None:
        executable = tvm.compile(mod, target, relax_pipeline=finish_pipeline(target))
        self._vm = relax.VirtualMachine(executable, tvm.cpu())
        self._names, self._workers = list(names), workers
        self._arguments = inputs

    def seconds(self) -> dict[str, float]:
        """Median seconds of each way, in interleaved rounds: a drift hits all alike."""
        return with_workers(
            self._workers, lambda: _time_rounds(self._vm, self._names, self._arguments)
        )

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple]) -> Any:
        """What the way ``name`` computes."""
        return with_workers(self._workers, lambda: self._vm[name](*arguments))


def finish_pipeline(target: tvm.target.Target) -> tvm.transform.Pass:
    """TVM's own pipeline for what is left after a function was scheduled."""
    return relax.get_default_pipeline(target)


def random_inputs(func: relax.Function, seed: int) -> list[tvm.runtime.Tensor | tuple]:
    """One value per parameter: standard normal, or zeros and ones for integers."""
    random = np.random.default_rng(seed)
    return [_random_input(parameter.ty, random) for parameter in func.params]


def _random_input(ty: relax.Type, random: np.random.Generator) -> tvm.runtime.Tensor | tuple:
    if isinstance(ty, relax.TupleType):
        return tuple(_random_input(field, random) for field in ty.fields)
    shape, dtype = [int(size) for size in ty.shape.values], str(ty.dtype)
    if dtype.startswith("float"):
        data = random.standard_normal(shape).astype(dtype)
    else:
        data = random.integers(0, 2, shape).astype(dtype)
    return tvm.runtime.tensor(data)


def _time_rounds(
    vm: relax.VirtualMachine, names: Sequence[str], arguments: Sequence[tvm.runtime.Tensor]
) -> dict[str, float]:
    timers = {}
    for name in names:
        first = vm.time_evaluator(name, tvm.cpu(), number=1, repeat=2)(*arguments).results[-1]
        number = max(1, int(_WINDOW / first))
        timers[name] = vm.time_evaluator(name, tvm.cpu(), number=number, repeat=1)
    samples: dict[str, list[float]] = {name: [] for name in names}
    with progress("timing models", _ROUNDS) as advance:
        for _ in range(_ROUNDS):
            for name, timer in timers.items():
                samples[name].append(timer(*arguments).results[0])
            advance(1)
    return {name: float(np.median(times)) for name, times in samples.items()}
