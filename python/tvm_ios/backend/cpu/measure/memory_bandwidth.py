# SPDX-License-Identifier: Apache-2.0
"""Memory bandwidth: how fast vectors stream from and to each level of the memory hierarchy.

``read`` sums an array, ``write`` fills one, ``copy`` scales one into another. The figures count the
bytes that the program reads and writes, not the bytes that a cache fetches before it overwrites
them. The multiplication in ``copy`` keeps LLVM from calling ``memcpy``, which is optimised
differently. Each figure is the fastest of many short runs, because it is to be an upper limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....support.threads import with_num_threads
from ....target import num_workers
from ..core import core_of
from ..isa.emit import Accumulators, Expr, lanes_of, splat, unroll, zeros
from .peak_flops import on_each_worker

KINDS = ("write", "read", "copy")
_VECTORS = 16  # in a step: more than an addition's latency, fewer than registers
_SECONDS = 2e-3  # duration of one run
_REPEAT = 20

Step = Callable[[Expr, Expr], None]


@dataclass(frozen=True)
class Level:
    """A level of the memory hierarchy, with the bytes that one worker streams to measure it."""

    name: str
    bytes_per_worker: int


@dataclass(frozen=True)
class Bandwidth:
    """The bandwidth of all workers together, in GB/s."""

    level: str
    threads: int
    bytes_per_worker: int
    read: float
    write: float
    copy: float


def measure(target: tvm.target.Target, level: Level) -> Bandwidth:
    """Measure all kinds of streams, on as many workers as the target has cores."""
    speeds = measure_kinds(target, level.bytes_per_worker, KINDS)
    return Bandwidth(level.name, num_workers(target), level.bytes_per_worker, **speeds)


def measure_kinds(
    target: tvm.target.Target, bytes_per_worker: int, kinds: Sequence[str]
) -> dict[str, float]:
    """Measure the bandwidth of all workers together, each on an array of its own.

    Parameters
    ----------
    target : tvm.target.Target
        Its ``num-cores`` is the number of workers.
    bytes_per_worker : int
        Bytes that one worker streams.
    kinds : sequence of str
        Of ``"read"``, ``"write"`` and ``"copy"``.

    Returns
    -------
    dict of str to float
        GB/s by kind.
    """
    core, workers = core_of(target), num_workers(target)
    elements = _VECTORS * core.lanes  # elements of one step
    steps = max(2, bytes_per_worker // (4 * elements))
    shape = (workers, steps * elements)
    functions = {kind: stream_function(kind, shape, core.lanes) for kind in ("write", *kinds)}
    module = tvm.compile(tvm.IRModule(functions), target=target).mod
    arrays = [tvm.runtime.empty(shape, "float32") for _ in range(2)]

    def speed(kind: str) -> float:
        # A copy accesses two arrays, half of each.
        taken, passes = (steps // 2, 2) if kind == "copy" else (steps, 1)
        moved = 4 * workers * taken * elements * passes
        return moved / _fastest_round(module, kind, [*arrays, taken]) / 1e9

    def speeds() -> dict[str, float]:
        module["write"](*arrays, steps, 1)  # first touch: pages are allocated near their worker
        return {kind: speed(kind) for kind in kinds}

    return with_num_threads(workers, speeds)


def _fastest_round(module: tvm.runtime.Module, name: str, arguments: Sequence[Any]) -> float:
    """Measure the seconds of one round over the arrays, in the fastest run of many rounds."""

    def seconds(rounds: int, repeat: int) -> float:
        timer = module.time_evaluator(name, tvm.cpu(), number=1, repeat=repeat)
        return min(timer(*arguments, rounds).results) / rounds

    return seconds(max(1, int(_SECONDS / seconds(1, 3))), _REPEAT)


def stream_function(kind: str, shape: tuple[int, int], lanes: int) -> tirx.PrimFunc:
    """Build ``f(a, b, steps, rounds)``, which streams each worker's row ``rounds`` times.

    Parameters
    ----------
    kind : str
        ``"read"``, ``"write"`` or ``"copy"``.
    shape : (int, int)
        Workers, and elements of a worker's row.
    lanes : int
        Elements of a vector.

    Returns
    -------
    tvm.tirx.PrimFunc
        ``steps`` is how many steps of a row are streamed.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(kind)
        T.func_attr({"tirx.noalias": True})
        a, b = (T.arg(name, T.buffer(shape, layout=None)) for name in ("a", "b"))
        steps, rounds = (T.arg(name, tirx.Var(name, "int32")) for name in ("steps", "rounds"))
        with T.sblock("root"):
            T.reads()
            T.writes()
            on_each_worker(
                shape[0], lambda worker: _Stream(a, b, worker, lanes, steps, rounds).emit(kind)
            )
    return builder.get()


@dataclass(frozen=True)
class _Stream:
    """The code of one worker, on its rows of two arrays."""

    a: tirx.Buffer
    b: tirx.Buffer
    worker: Expr
    lanes: int
    steps: Expr
    rounds: Expr

    def emit(self, kind: str) -> None:
        {"read": self._read, "write": self._write, "copy": self._copy}[kind]()

    def _read(self) -> None:
        """Emit sums in registers; they are stored at the end so that LLVM keeps the loads."""
        sums = Accumulators(_VECTORS, self.lanes, zeros(self.lanes))

        def add(i: Expr, j: Expr) -> None:
            sums[j] = sums[j] + self.a[self._at(i, j)]

        self._each_round(lambda _round: add)
        unroll(0, _VECTORS, lambda j: T.buffer_store(self.b, sums[j], self._at(0, j)))

    def _write(self) -> None:
        def fill(count: Expr) -> Step:
            value = splat(T.Cast("float32", count), self.lanes)
            return lambda i, j: T.buffer_store(self.a, value, self._at(i, j))

        self._each_round(fill)

    def _copy(self) -> None:
        def scale(count: Expr) -> Step:
            factor = splat(T.Cast("float32", count), self.lanes)
            return lambda i, j: T.buffer_store(
                self.b, self.a[self._at(i, j)] * factor, self._at(i, j)
            )

        self._each_round(scale)

    def _each_round(self, step: Callable[[Expr], Step]) -> None:
        with T.serial(self.rounds) as count:
            body = step(count)
            with T.serial(self.steps) as i:
                unroll(0, _VECTORS, lambda j: body(i, j))

    def _at(self, i: Expr, j: Expr) -> list[Expr]:
        """Return the index of vector ``j`` of step ``i``."""
        return [self.worker, lanes_of((i * _VECTORS + j) * self.lanes, self.lanes)]
