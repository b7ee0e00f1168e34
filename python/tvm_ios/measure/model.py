# SPDX-License-Identifier: Apache-2.0
"""Whole models timed against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..graph.operators import Operator
from ..lower.network import LoweredStage, emit_function
from ..threads import with_workers
from .progress import progress

_ROUNDS = 11
_WINDOW = 20e-3  # seconds of one round of one model


class CompiledWays:
    """One function lowered in several ways and compiled.

    The ways are functions of one module, so that equal stages are compiled once.

    Parameters
    ----------
    mod : tvm.IRModule
        The prepared module.
    function : str
    stages : mapping of str to sequence of (LoweredStage or Operator)
        The stages of each way.
    target : tvm.target.Target
    workers : int
    seed : int
        Of the random inputs that the ways are timed with.
    """

    def __init__(
        self,
        mod: tvm.IRModule,
        function: str,
        stages: Mapping[str, Sequence[LoweredStage | Operator]],
        target: tvm.target.Target,
        workers: int,
        seed: int,
    ) -> None:
        variants = _variants(mod, function, stages, workers)
        with progress("compiling models", 1) as advance:
            executable = tvm.compile(variants, target, relax_pipeline=finish_pipeline(target))
            self._vm = relax.VirtualMachine(executable, tvm.cpu())
            advance(1)
        self._names, self._workers = list(stages), workers
        self._arguments = random_inputs(mod[function], seed)

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


def _variants(
    mod: tvm.IRModule,
    function: str,
    stages: Mapping[str, Sequence[LoweredStage | Operator]],
    workers: int,
) -> tvm.IRModule:
    """``mod`` with one copy of the function for each way."""
    original = mod[function]
    functions = {gv: f for gv, f in mod.functions.items() if gv.name_hint != function}
    for name in stages:
        functions[tvm.ir.GlobalVar(name)] = original.with_attr("global_symbol", name)
    variants = tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
    for name, way in stages.items():
        variants = emit_function(variants, name, way, workers)
    return variants


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
