# SPDX-License-Identifier: Apache-2.0
"""Whole models timed against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from ..target import is_cuda
from ..threads import with_workers
from .progress import progress

_ROUNDS = 11
_WINDOW = 20e-3  # seconds of one round of one model
_CAPTURABLE = ("tvm_ios.runtime.", "tvm_ios_", "vm.builtin.")


class Ways(Protocol):
    """One function lowered in several ways."""

    def seconds(self) -> dict[str, float]:
        """Median seconds of each way, in interleaved rounds: a drift hits all alike."""

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple]) -> Any:
        """What the way ``name`` computes."""


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
        return with_workers(self._workers, lambda: median_rounds(self._names, self._timer))

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple]) -> Any:
        return with_workers(self._workers, lambda: self._vm[name](*arguments))

    def _timer(self, name: str, number: int) -> Callable[[], float]:
        timer = self._vm.time_evaluator(name, tvm.cpu(), number=number, repeat=1)
        return lambda: timer(*self._arguments).results[0]


def finish_pipeline(target: tvm.target.Target, *, graph: bool = True) -> tvm.transform.Pass:
    """TVM's own pipeline for what is left after a function was scheduled.

    Parameters
    ----------
    target : tvm.target.Target
    graph : bool
        Whether a CUDA device runs what was scheduled as one graph. What calls functions that the
        user has given does not: a graph would not call them again.
    """
    default = relax.get_default_pipeline(target)
    if not is_cuda(target):
        return default

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.finish_cuda")
    def finish(mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        captured = graph and not _calls_of_the_user(mod)
        config = {**context.config, "relax.backend.use_cuda_graph": captured}
        with tvm.transform.PassContext(opt_level=context.opt_level, config=config):
            return default(mod)

    return finish


def _calls_of_the_user(mod: tvm.IRModule) -> bool:
    """Whether functions are called by name that are neither ours nor TVM's."""
    names: set[str] = set()
    visit = [(relax.ExternFunc, lambda function: names.add(str(function.global_symbol)))]
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, visit)
    return not all(name.startswith(_CAPTURABLE) for name in names)


def random_inputs(
    func: relax.Function, seed: int, integers: int = 2
) -> list[tvm.runtime.Tensor | tuple]:
    """One value per parameter: standard normal, or as many different integers from 0 on."""
    random = np.random.default_rng(seed)
    return [_random_input(parameter.ty, random, integers) for parameter in func.params]


def _random_input(
    ty: relax.Type, random: np.random.Generator, integers: int
) -> tvm.runtime.Tensor | tuple:
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
