# SPDX-License-Identifier: Apache-2.0
"""Peak arithmetic throughput: multiply-adds in registers, on one core or on several.

The peak is measured, not looked up, by a loop of independent multiply-adds that is compiled like
the kernels. The result is the fastest of many short runs, because it is to be an upper limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....ops.tir_function import on_stack, tile_scope
from ....support.threads import with_num_threads
from ....target import num_workers
from ..code.aligned_stack import aligned_stack
from ..core import Core, core_of
from ..isa import amx, bfmmla
from ..isa.bfloat16 import DOT2, dot, dot_source
from ..isa.emit import Accumulators, Expr, lanes_of, unroll, zeros

CHAINS = 12  # independent multiply-adds: more than latency x pipelines, fewer than registers
STEPS = 100_000
_RUNS, _REPEAT = 5, 50
_ROWS = 4 * amx.ROWS  # vectors of operands, of which most loops use fewer


class MultiplyAdds:
    """A compiled loop of multiply-adds that all workers of the target run at the same time.

    Parameters
    ----------
    target : tvm.target.Target
        Its ``num-cores`` is the number of workers.
    bf16 : bool
        Whether bfloat16 is multiplied, by the instruction of the processor that multiplies most.

    Attributes
    ----------
    flops : int
        Floating-point operations of one run, of all workers together.
    """

    def __init__(self, target: tvm.target.Target, *, bf16: bool = False) -> None:
        core, self.workers = core_of(target), num_workers(target)
        assert core.bf16_dot2 or not bf16, "the processor has the instruction"
        loop = _LOOPS[core.tile_matmul if bf16 else None](core, bf16)
        self.flops = 2 * loop.products * STEPS * self.workers
        function = _function(core, STEPS, self.workers, loop)
        self._module = tvm.compile(tvm.IRModule({"fma": function}), target=target).mod
        random = np.random.default_rng(0).uniform(0.5, 0.9, (_ROWS, core.lanes))
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


def _function(core: Core, steps: int, workers: int, loop: _Loop) -> tirx.PrimFunc:
    """Build a function of ``steps`` steps of a loop on each worker."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("fma")
        T.func_attr({"tirx.noalias": True})
        source = T.arg("source", T.buffer((_ROWS, core.lanes), layout=None))
        result = T.arg("result", T.buffer((workers, CHAINS, core.lanes), layout=None))
        with T.sblock("root"):
            T.reads()
            T.writes()
            with aligned_stack(loop.sources):
                on_each_worker(workers, lambda worker: loop.emit(steps, source, result, worker))
    return builder.get()


class _Loop:
    """Independent multiply-adds of vectors: of float32, or of bfloat16 by twos.

    Attributes
    ----------
    products : int
        The products of a step.
    sources : frozenset of str
        The LLVM IR of the functions that the code calls.
    """

    def __init__(self, core: Core, bf16: bool) -> None:
        self.core, self.bf16, self.lanes = core, bf16, core.lanes
        self.products = (2 if bf16 else 1) * CHAINS * core.lanes
        self.sources = dot_source(core.bf16_dot2, core.lanes) if bf16 else frozenset()

    def emit(self, steps: int, source: Any, result: Any, worker: Expr) -> None:
        """Emit the loop, of one worker."""
        registers = Accumulators(CHAINS, self.lanes, zeros(self.lanes))
        vector = lanes_of(0, self.lanes)

        def start(i: int) -> None:
            registers[i] = source[i, vector]

        def finish(i: int) -> None:
            T.buffer_store(result, registers[i], [worker, i, vector])

        unroll(0, CHAINS, start)
        with T.serial(steps):
            self._step(registers, [source[CHAINS + k, vector] for k in range(2)])
        unroll(0, CHAINS, finish)

    def _step(self, registers: Accumulators, operands: Sequence[Expr]) -> None:
        a, b = map(self._pairs, operands) if self.bf16 else operands

        def step(i: int) -> None:
            if self.bf16:
                registers[i] = dot(registers[i], a, b, self.core.bf16_dot2_lanes)
            else:
                registers[i] = registers[i] * a + b

        unroll(0, CHAINS, step)

    def _pairs(self, vector: Expr) -> Expr:
        return T.reinterpret(f"{DOT2}x{self.lanes}", vector)


class _BfmmlaLoop(_Loop):
    """Products of matrices in vectors."""

    def __init__(self, core: Core, bf16: bool) -> None:
        super().__init__(core, bf16)
        self.products = 2 * bfmmla.PAIRS * CHAINS * core.lanes
        self.sources = bfmmla.sources()

    def _step(self, registers: Accumulators, operands: Sequence[Expr]) -> None:
        rows, columns = map(self._pairs, operands)
        left = [rows] * (CHAINS // 2)
        bfmmla.multiply([registers], left, [(columns, columns)])


class _AmxLoop(_Loop):
    """Products of matrices in registers of their own, which are loaded in each step."""

    def __init__(self, core: Core, bf16: bool) -> None:
        super().__init__(core, bf16)
        self._shapes = amx.Step((amx.ROWS, amx.ROWS), 2, amx.ROWS)
        self.products = 4 * amx.ROWS * amx.COLUMNS * 2 * amx.ROWS
        self.sources = self._shapes.sources

    def emit(self, steps: int, source: Any, result: Any, worker: Expr) -> None:
        shapes, row_bytes = self._shapes, amx.COLUMNS * amx.DOT2_BYTES
        matrices = [amx.address(source, [n * amx.ROWS, 0]) for n in range(4)]
        sums = on_stack([2, 2 * amx.ROWS, amx.COLUMNS])
        shapes.begin()
        with T.serial(steps):
            shapes.multiply(matrices[:2], row_bytes, matrices[2:], row_bytes)
        shapes.end([amx.address(sums, place, "w") for place in shapes.sums()])
        vector = lanes_of(0, self.lanes)
        T.buffer_store(result, sums[0, 0, vector], [worker, 0, vector])


_LOOPS: dict[str | None, type[_Loop]] = {
    None: _Loop,
    amx.PRODUCTS: _AmxLoop,
    bfmmla.PRODUCTS: _BfmmlaLoop,
}
"""The loops by the instruction that multiplies matrices."""
