# SPDX-License-Identifier: Apache-2.0
"""What it costs to hand work to TVM's thread pool, and to meet at a barrier in it.

Workers that wait spin for a while. The costs are those of launches that follow each other at once,
as the stages of a network do; a pool that has fallen asleep takes longer to answer. Each figure is
the median of many runs: unlike a limit, it is paid every time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from tvm_ios.ops.tir_function import tile_scope
from tvm_ios.support.threads import with_num_threads
from tvm_ios.target import num_workers

_BARRIERS = 100
_LINE = 64  # float32 between two workers' elements, so that they share no cache line
_NUMBER, _REPEAT = 200, 31


@dataclass(frozen=True)
class PoolCosts:
    """Microseconds.

    Attributes
    ----------
    threads : int
        Workers of the pool.
    call : float
        A compiled function that stores a number, without parallelism.
    launch : float
        What one parallel launch adds to it.
    barrier : float
        What one barrier adds inside a launch.
    """

    threads: int
    call: float
    launch: float
    barrier: float


def measure(target: tvm.target.Target) -> PoolCosts:
    """Time a function that does next to nothing, with and without launches and barriers."""
    workers = num_workers(target)
    bodies = {
        "call": lambda buffer: _store(buffer, 0),
        "launch": lambda buffer: _parallel(buffer, workers),
        "region": lambda buffer: _region(buffer, workers),
    }
    functions = {name: _function(name, workers, body) for name, body in bodies.items()}
    module = tvm.compile(tvm.IRModule(functions), target=target).mod
    buffer = tvm.runtime.tensor(np.zeros(workers * _LINE, "float32"))

    def microseconds(name: str) -> float:
        timer = module.time_evaluator(name, tvm.cpu(), number=_NUMBER, repeat=_REPEAT)
        return 1e6 * float(np.median(timer(buffer).results))

    call, launch, region = with_num_threads(workers, lambda: [*map(microseconds, functions)])
    return PoolCosts(workers, call, launch - call, (region - launch) / _BARRIERS)


def _function(name: str, workers: int, body: Callable[[tirx.Buffer], None]) -> tirx.PrimFunc:
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        buffer = T.arg("buffer", T.buffer((workers * _LINE,), layout=None))
        with T.sblock("root"):
            T.reads()
            T.writes()
            body(buffer)
    return builder.get()


def _store(buffer: tirx.Buffer, worker: tirx.Var | int) -> None:
    with tile_scope():
        T.buffer_store(buffer, T.float32(1), [worker * _LINE])


def _parallel(buffer: tirx.Buffer, workers: int) -> None:
    with T.parallel(workers) as worker:
        _store(buffer, worker)


def _region(buffer: tirx.Buffer, workers: int) -> None:
    """One launch with ``_BARRIERS`` barriers."""
    zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
    with T.attr(zero, "pragma_parallel_launch_point", one):
        for _ in range(_BARRIERS):
            with T.attr(zero, "pragma_parallel_barrier_when_finish", one):
                _parallel(buffer, workers)
