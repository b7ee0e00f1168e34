# SPDX-License-Identifier: Apache-2.0
"""Peak arithmetic throughput: vector multiply-adds in registers, on one core or on several.

The peak is measured, not looked up, by a loop of independent multiply-adds that is compiled like
the kernels. The result is the fastest of many short runs, because it is to be an upper limit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....support.threads import with_num_threads
from ....target import Core, core_of, num_workers
from ....tir.bfloat16 import dot, dot_source
from ....tir.emit import Accumulators, Expr, lanes_of, tile_scope, unroll, zeros
from ..code.aligned_stack import aligned_stack

CHAINS = 12  # independent multiply-adds: more than latency x pipelines, fewer than registers
STEPS = 100_000
_RUNS, _REPEAT = 5, 50


class MultiplyAdds:
    """A compiled loop of multiply-adds that all workers of the target run at the same time.

    Parameters
    ----------
    target : tvm.target.Target
        Its ``num-cores`` is the number of workers.
    paired : bool
        Whether pairs of bfloat16 are multiplied, by the processor's instruction.

    Attributes
    ----------
    flops : int
        Floating-point operations of one run, of all workers together.
    """

    def __init__(self, target: tvm.target.Target, *, paired: bool = False) -> None:
        core, self.workers = core_of(target), num_workers(target)
        assert core.pair_products or not paired, "the processor has the instruction"
        self.flops = (4 if paired else 2) * CHAINS * core.lanes * STEPS * self.workers
        function = _function(core, STEPS, self.workers, paired)
        self._module = tvm.compile(tvm.IRModule({"fma": function}), target=target).mod
        random = np.random.default_rng(0).uniform(0.5, 0.9, (CHAINS + 2, core.lanes))
        self._source = tvm.runtime.tensor(random.astype("float32"))
        shape = (self.workers, CHAINS, core.lanes)
        self._result = tvm.runtime.tensor(np.zeros(shape, "float32"))

    def __call__(self) -> None:
        """Run the loop once, on the calling thread's pool."""
        self._module["fma"](self._source, self._result)

    def gflops(self, repeat: int = _REPEAT) -> float:
        """Return the highest throughput of all workers together, in GFLOP/s."""
        timer = self._module.time_evaluator("fma", tvm.cpu(), number=_RUNS, repeat=repeat)
        results = with_num_threads(self.workers, lambda: timer(self._source, self._result).results)
        return self.flops / min(results) / 1e9


def on_each_worker(workers: int, body: Callable[[Expr], None]) -> None:
    """Emit ``body(worker)`` in one parallel launch, or directly for a single worker."""
    if workers == 1:
        with tile_scope():
            body(0)
        return
    with T.parallel(workers) as worker, tile_scope():
        body(worker)


def _function(core: Core, steps: int, workers: int, paired: bool) -> tirx.PrimFunc:
    """Build a function of ``steps`` times ``CHAINS`` independent vector multiply-adds."""
    instruction = dot_source(core.pair_products, core.lanes) if paired else ()
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("fma")
        T.func_attr({"tirx.noalias": True})
        source = T.arg("source", T.buffer((CHAINS + 2, core.lanes), layout=None))
        result = T.arg("result", T.buffer((workers, CHAINS, core.lanes), layout=None))
        with T.sblock("root"):
            T.reads()
            T.writes()
            with aligned_stack(instruction):
                on_each_worker(
                    workers, lambda worker: _chains(core, steps, source, result, worker, paired)
                )
    return builder.get()


def _chains(
    core: Core, steps: int, source: tirx.Buffer, result: tirx.Buffer, worker: Expr, paired: bool
) -> None:
    registers = Accumulators(CHAINS, core.lanes, zeros(core.lanes))

    def vector(row: int) -> Expr:
        return source[row, lanes_of(0, core.lanes)]

    def start(i: int) -> None:
        registers[i] = vector(i)

    def step(i: int) -> None:
        if not paired:
            registers[i] = registers[i] * vector(CHAINS) + vector(CHAINS + 1)
            return
        a, b = (T.reinterpret(f"int32x{core.lanes}", vector(CHAINS + k)) for k in range(2))
        registers[i] = dot(registers[i], a, b, core.pair_lanes)

    def finish(i: int) -> None:
        T.buffer_store(result, registers[i], [worker, i, lanes_of(0, core.lanes)])

    unroll(0, CHAINS, start)
    with T.serial(steps):
        unroll(0, CHAINS, step)
    unroll(0, CHAINS, finish)
