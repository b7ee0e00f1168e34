# SPDX-License-Identifier: Apache-2.0
"""The CPU stage runner: every tile once, levels in order, errors carried to the caller."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import tirx as T

from tvm_ios.support import _ffi_api  # noqa: F401  (loads the library)

SIZE = 4096

set_runtime_library = tvm_ffi.get_global_func("tvm_ios.runtime.SetRuntimeLibrary")
run_stage = tvm_ffi.get_global_func("tvm_ios.runtime.RunStage")
time_stage = tvm_ffi.get_global_func("tvm_ios.runtime.TimeStage")
num_threads = tvm_ffi.get_global_func("runtime.NumThreads")


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


@pytest.fixture(scope="module", autouse=True)
def _thread_pool() -> None:
    set_runtime_library(str(Path(tvm.__file__).parent / "lib" / "libtvm_runtime.so"))


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    """The compiled functions."""
    functions = {"count": count, "double": double, "mirror": mirror}
    module = tvm.IRModule(
        {name: func.with_attr("global_symbol", name) for name, func in functions.items()}
    )
    library = tvm.compile(module, target="llvm")
    return {name: library[name] for name in functions}


@pytest.fixture(params=[1, 2, 4])
def on_pool(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], None]], None]:
    """Calls a function on a host thread whose pool has so many threads, if the machine does."""
    monkeypatch.setenv("TVM_NUM_THREADS", str(request.param))

    def call(function: Callable[[], None]) -> None:
        errors: list[BaseException] = []

        def body() -> None:
            try:
                assert num_threads() == min(request.param, os.cpu_count())
                function()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]

    return call


def zeros() -> Any:
    """Return a tensor of zeros."""
    return tvm.runtime.tensor(np.zeros(SIZE, "float32"))


def even(workers: int) -> list[int]:
    """Return cuts that divide the tiles evenly."""
    return np.linspace(0, SIZE, workers + 1).astype(int).tolist()


def program(*rows: list[int]) -> np.ndarray:
    """Return a stage program."""
    return np.array(rows, dtype=np.int32)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_every_tile_once(kernels: dict, on_pool: Callable, workers: int) -> None:
    """For divisions of any kind, also where workers have nothing to do."""

    def check() -> None:
        numbers = np.random.default_rng(workers)
        divisions = [even(workers), [0] * workers + [SIZE], [0] + [SIZE] * workers]
        divisions += [sorted(numbers.integers(0, SIZE, workers + 1).tolist()) for _ in range(20)]
        for cuts in divisions:
            x = zeros()
            run_stage([kernels["count"]], [[x]], program([0, 0, *cuts]), workers)
            expected = np.zeros(SIZE)
            expected[cuts[0] : cuts[-1]] = 1
            np.testing.assert_array_equal(x.numpy(), expected)

    on_pool(check)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_levels_meet_at_a_barrier(kernels: dict, on_pool: Callable, workers: int) -> None:
    """Each level reads what other workers wrote in the one before."""

    def check() -> None:
        numbers = np.random.default_rng(workers)
        for _ in range(200):
            tensors = [zeros() for _ in range(6)]
            args = [[x, y] for x, y in itertools.pairwise(tensors)]
            rows = []
            for level in range(len(args)):
                inner = sorted(numbers.integers(0, SIZE, workers - 1).tolist())
                rows.append([level, 3 * level, 0, *inner, SIZE])
            run_stage([kernels["mirror"]] * len(args), args, program(*rows), workers)
            for level, tensor in enumerate(tensors):
                np.testing.assert_array_equal(tensor.numpy(), level)

    on_pool(check)


def test_rows_of_a_level_run_in_order(kernels: dict, on_pool: Callable) -> None:
    """(0 + 1) * 2 + 1 = 3, on each worker's own tiles."""

    def check() -> None:
        x = zeros()
        rows = [[0, 0, *even(3)], [1, 0, *even(3)], [0, 0, *even(3)]]
        run_stage([kernels["count"], kernels["double"]], [[x], [x]], program(*rows), 3)
        np.testing.assert_array_equal(x.numpy(), 3)

    on_pool(check)


def test_groups_on_different_workers(kernels: dict, on_pool: Callable) -> None:
    """A whole kernel a worker, each with its own tensor."""

    def check() -> None:
        x, y = zeros(), zeros()
        rows = program([0, 0, 0, SIZE, SIZE], [1, 0, 0, 0, SIZE])
        run_stage([kernels["count"], kernels["count"]], [[x], [y]], rows, 2)
        np.testing.assert_array_equal(x.numpy(), 1)
        np.testing.assert_array_equal(y.numpy(), 1)

    on_pool(check)


def test_time(kernels: dict, on_pool: Callable) -> None:
    """The stage runs number * repeat times."""

    def check() -> None:
        x = zeros()
        seconds = time_stage([kernels["count"]], [[x]], program([0, 0, *even(2)]), 2, 7, 5).numpy()
        assert seconds.shape == (5,)
        assert (seconds > 0).all()
        np.testing.assert_array_equal(x.numpy(), 35)

    on_pool(check)


def test_error_of_a_kernel(kernels: dict, on_pool: Callable) -> None:
    """It comes out once, no barrier waits for the failed worker, and the pool lives on."""

    def fail(x: Any, begin: int, end: int) -> None:
        if begin > 0:
            raise ValueError(f"tiles {begin} to {end}")

    broken = tvm_ffi.convert(fail)

    def check() -> None:
        x = zeros()
        rows = [[0, 0, *even(3)], [1, 1, *even(3)], [1, 2, *even(3)]]
        with pytest.raises(ValueError, match="tiles"):
            run_stage([broken, kernels["count"]], [[x], [x]], program(*rows), 3)
        np.testing.assert_array_equal(x.numpy(), 0)
        run_stage([kernels["count"]], [[x]], program([0, 0, *even(3)]), 3)
        np.testing.assert_array_equal(x.numpy(), 1)

    on_pool(check)


@pytest.mark.parametrize(
    ("rows", "workers", "message"),
    [
        ([[1, 0, 0, 8]], 1, "kernel 1"),
        ([[-1, 0, 0, 8]], 1, "kernel -1"),
        ([[0, 0, 0, 8]], 2, "columns"),
        ([[0, 0, 8, 0]], 1, "cuts"),
        ([[0, 1, 0, 8], [0, 0, 0, 8]], 1, "levels"),
        ([[0, 0, 8]], 0, "worker"),
    ],
)
def test_bad_programs(kernels: dict, rows: list, workers: int, message: str) -> None:
    """Whatever a program can get wrong is told before anything runs."""
    x = zeros()
    with pytest.raises((ValueError, IndexError), match=message):
        run_stage([kernels["count"]], [[x]], program(*rows), workers)
    np.testing.assert_array_equal(x.numpy(), 0)


def test_bad_arguments(kernels: dict) -> None:
    """Arguments that do not belong together."""
    rows = program([0, 0, 0, 8])
    with pytest.raises(ValueError, match="row per kernel"):
        run_stage([kernels["count"]], [], rows, 1)
    with pytest.raises(ValueError, match="element type"):
        run_stage([kernels["count"]], [[zeros()]], rows.astype(np.int64), 1)
    with pytest.raises(ValueError, match="number must be from 1"):
        time_stage([kernels["count"]], [[zeros()]], rows, 1, 0, 1)


def test_empty_program(kernels: dict) -> None:
    """Nothing to do is done at once."""
    run_stage([], [], np.zeros((0, 5), np.int32), 2)


def test_runtime_that_is_not_loaded() -> None:
    """A second thread pool is not what anybody wants."""
    with pytest.raises(ValueError, match="import tvm"):
        set_runtime_library("/nowhere/libtvm_runtime.so")


def test_a_tensor_within_another() -> None:
    part_of = tvm_ffi.get_global_func("tvm_ios.runtime.TensorPart")
    whole = tvm.runtime.tensor(np.arange(12, dtype="float32"))
    part = part_of(whole, 16, tvm_ffi.Shape((2, 3)), tvm_ffi.dtype("float32"))
    assert part.data_ptr() == whole.data_ptr() + 16
    del whole  # its memory stays
    np.testing.assert_array_equal(np.from_dlpack(part), [[4, 5, 6], [7, 8, 9]])
    for offset in (-4, 4):
        with pytest.raises(ValueError, match="24 bytes from"):
            part_of(part, offset, tvm_ffi.Shape((6,)), tvm_ffi.dtype("float32"))
