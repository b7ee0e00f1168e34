# SPDX-License-Identifier: Apache-2.0
"""The CPU stage runner: every tile once, levels in order, errors carried to the caller."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import tirx as T

from tvm_ios.support.libinfo import load_library

load_library()
SIZE = 4096

TENSOR = np.array([2, 32, 1, SIZE])  # float32 [SIZE], as AddKernel takes it

WORKERS = [1, 2, 3, 5, 4 * (os.cpu_count() or 1)]


@T.prim_func
def count(x: T.Buffer((SIZE,), "float32"), begin: T.int32, end: T.int32):
    """Add one to each tile of the range."""
    for i in range(end - begin):
        x[begin + i] = x[begin + i] + T.float32(1)


@T.prim_func
def double(x: T.Buffer((SIZE,), "float32"), begin: T.int32, end: T.int32):
    """Multiply each tile of the range by two."""
    for i in range(end - begin):
        x[begin + i] = x[begin + i] * T.float32(2)


@T.prim_func
def mirror(
    x: T.Buffer((SIZE,), "float32"),
    y: T.Buffer((SIZE,), "float32"),
    begin: T.int32,
    end: T.int32,
):
    """Read the tiles that another worker wrote."""
    for i in range(end - begin):
        y[begin + i] = x[SIZE - 1 - begin - i] + T.float32(1)


@T.prim_func
def show(x: T.Buffer((SIZE,), "float32"), begin: T.int32, end: T.int32):
    """Tell Python where the tensor lies."""
    T.evaluate(T.call_packed("tests.runtime.show", x.data))


@T.prim_func
def fail(x: T.Buffer((SIZE,), "float32"), begin: T.int32, end: T.int32):
    """Fail on any tiles but the first."""
    if begin > 0:
        T.evaluate(T.call_packed("tests.runtime.fail", begin, end))


SHOWN: list[np.ndarray] = []
"""The tensors of the calls of ``show``."""


@tvm_ffi.register_global_func("tests.runtime.show")
def _show(data: ctypes.c_void_p) -> None:
    floats = ctypes.cast(data, ctypes.POINTER(ctypes.c_float))
    SHOWN.append(np.ctypeslib.as_array(floats, (SIZE,)).copy())


@tvm_ffi.register_global_func("tests.runtime.fail")
def _fail(begin: int, end: int) -> None:
    raise ValueError(f"tiles {begin} to {end}")


KERNELS = {"count": count, "double": double, "mirror": mirror, "show": show, "fail": fail}


class Bench:
    """The kernels and tensors of zeros on a workbench, where a search runs and times stages.

    Parameters
    ----------
    library
        The compiled kernels.
    num_tensors
        How many tensors there are; they are named by number.
    """

    def __init__(self, library: Any, num_tensors: int = 1) -> None:
        self._bench = tvm_ffi.get_global_func("tvm_ios.runtime.NewStageRunner")()
        self._kernels = {
            name: self._call("AddKernel", library, name, np.tile(TENSOR, count).tobytes())
            for name in KERNELS
            for count in [2 if name == "mirror" else 1]
        }
        for _ in range(num_tensors):
            self._call("AddMemory", 4 * SIZE)

    def _call(self, function: str, *arguments: object) -> Any:
        return tvm_ffi.get_global_func(f"tvm_ios.runtime.{function}")(self._bench, *arguments)

    def run(
        self, calls: Sequence[tuple[object, ...]], rows: np.ndarray, workers: int, repeat: int = 1
    ) -> np.ndarray:
        """Run a stage of calls, each a kernel and its tensors; returns the seconds of each run.

        They are negative if a worker was preempted.
        """
        numbers = [
            n for name, *at in calls for n in (self._kernels[name], *np.kron(at, [1, 0]).tolist())
        ]
        encoded = np.array(repeat * numbers, "int64").tobytes()
        levels = np.array([len(np.unique(rows[:, 1]))] if rows.ndim == 2 else [1], "int32")
        answer = self._call(
            "TimeOnRunner", rows.tobytes(), levels.tobytes(), encoded, workers, repeat, 0.0
        )
        return np.frombuffer(answer)[2:].reshape(repeat, 3)[:, 2]

    def read(self, tensor: int) -> np.ndarray:
        """Return what a tensor holds."""
        self.run([("show", tensor)], program([0, 0, 1, 0, SIZE]), 1)
        return SHOWN.pop()


@pytest.fixture(scope="module")
def library() -> Any:
    """The compiled kernels."""
    module = tvm.IRModule(
        {name: func.with_attr("global_symbol", name) for name, func in KERNELS.items()}
    )
    return tvm.compile(module, target="llvm").mod


def even(workers: int) -> list[int]:
    """Return cuts that divide the tiles evenly."""
    return np.linspace(0, SIZE, workers + 1).astype(int).tolist()


def program(*rows: list[int]) -> np.ndarray:
    """Return a stage program."""
    return np.array(rows, dtype=np.int32)


@pytest.mark.parametrize("units", [1, 3, 50])
@pytest.mark.parametrize("workers", WORKERS)
def test_every_tile_once(library: Any, workers: int, units: int) -> None:
    """For divisions of any kind, also where workers have nothing to do."""
    numbers = np.random.default_rng(workers)
    partitionings = [even(workers), [0] * workers + [SIZE], [0] + [SIZE] * workers]
    partitionings += [sorted(numbers.integers(0, SIZE, workers + 1).tolist()) for _ in range(20)]
    for cuts in partitionings:
        bench = Bench(library)
        bench.run([("count", 0)], program([0, 0, units, *cuts]), workers)
        expected = np.zeros(SIZE)
        expected[cuts[0] : cuts[-1]] = 1
        np.testing.assert_array_equal(bench.read(0), expected)


@pytest.mark.parametrize("runs", [40, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("workers", WORKERS)
def test_levels_meet_at_a_barrier(library: Any, workers: int, runs: int) -> None:
    """Each level reads what other workers wrote in the one before."""
    numbers = np.random.default_rng(workers)
    for _ in range(runs):
        bench = Bench(library, num_tensors=6)
        rows = []
        for level in range(5):
            inner = sorted(numbers.integers(0, SIZE, workers - 1).tolist())
            rows.append([level, 3 * level, 4, 0, *inner, SIZE])
        calls = [("mirror", level, level + 1) for level in range(5)]
        bench.run(calls, program(*rows), workers)
        for level in range(6):
            np.testing.assert_array_equal(bench.read(level), level)


@pytest.mark.parametrize("units", [0, 1, 4])
def test_rows_of_a_level_run_in_order(library: Any, units: int) -> None:
    """(0 + 1) * 2 + 1 = 3, on each worker's own tiles, as shares of their own or as one."""
    bench = Bench(library)
    rows = [[0, 0, 2, *even(3)], [1, 0, units, *even(3)], [0, 0, units, *even(3)]]
    bench.run([("count", 0), ("double", 0)], program(*rows), 3)
    np.testing.assert_array_equal(bench.read(0), 3)


def test_groups_on_different_workers(library: Any) -> None:
    """A whole kernel a worker, each with its own tensor."""
    bench = Bench(library, num_tensors=2)
    rows = program([0, 0, 8, 0, SIZE, SIZE], [1, 0, 8, 0, 0, SIZE])
    bench.run([("count", 0), ("count", 1)], rows, 2)
    np.testing.assert_array_equal(bench.read(0), 1)
    np.testing.assert_array_equal(bench.read(1), 1)


def test_time(library: Any) -> None:
    """The stage runs once for each time that is returned."""
    bench = Bench(library)
    seconds = bench.run([("count", 0)], program([0, 0, 2, *even(2)]), 2, repeat=5)
    assert seconds.shape == (5,)
    assert (seconds != 0).all()
    np.testing.assert_array_equal(bench.read(0), 5)


@pytest.mark.parametrize("workers", [3, 16])
def test_error_of_a_kernel(library: Any, workers: int) -> None:
    """It comes out once, nobody waits for the failed worker, and the helpers live on."""
    bench = Bench(library)
    rows = [[0, 0, 2, *even(workers)]] + [[1, n, 2, *even(workers)] for n in (1, 2)]
    with pytest.raises(ValueError, match="tiles"):
        bench.run([("fail", 0), ("count", 0)], program(*rows), workers)
    np.testing.assert_array_equal(bench.read(0), 0)
    bench.run([("count", 0)], program([0, 0, 2, *even(workers)]), workers)
    np.testing.assert_array_equal(bench.read(0), 1)


@pytest.mark.parametrize(
    ("rows", "workers", "message"),
    [
        ([[-1, 0, 1, 0, 8]], 1, "kernel -1"),
        ([[0, 0, 1, 0, 8]], 2, "cut off"),
        ([[0, 0, 1, 8, 0]], 1, "cuts"),
        ([[0, 1, 1, 0, 8], [0, 0, 1, 0, 8]], 1, "levels"),
        ([[0, 0, 0, 0, 8]], 1, "units"),
        ([[0, 0, 1 << 16, 0, 8]], 1, "units"),
        ([[0, 0, 1, 8]], 0, "worker"),
    ],
)
def test_bad_programs(library: Any, rows: list, workers: int, message: str) -> None:
    """Whatever a program can get wrong is told before anything runs."""
    bench = Bench(library)
    with pytest.raises((ValueError, IndexError), match=message):
        bench.run([("count", 0)], program(*rows), workers)
    np.testing.assert_array_equal(bench.read(0), 0)
