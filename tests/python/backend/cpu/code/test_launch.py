# SPDX-License-Identifier: Apache-2.0
"""What generated code does with a launch's tables is what C++ does with them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from support.networks import NATIVE
from tvm_ios.backend.cpu.code.functions import KernelFunctions, build_drivers
from tvm_ios.backend.cpu.code.launch_code import (
    KernelCall,
    LaunchCode,
    launches_source,
)
from tvm_ios.backend.cpu.code.launch_tables import LaunchTables, Part, launch_tables
from tvm_ios.backend.cpu.code.pipeline import SYMBOL
from tvm_ios.backend.cpu.code.region import Place
from tvm_ios.backend.cpu.code.units import Unit
from tvm_ios.backend.cpu.code.waits import Wait, WaitPlan
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.ops.tir_function import on_stack
from tvm_ios_runtime.helpers import SET_LAUNCHER

SOURCES = Path(__file__).parents[5] / "src"
MOST_UNITS = 2000
ARGUMENTS = [
    TensorSpec((1 + 2 * MOST_UNITS,), "int32"),
    TensorSpec((3 * MOST_UNITS,), "int64"),
]
CPP = """
#include <thread>
#include <vector>

#include "runtime/launch/claims.h"
#include "runtime/launch/launcher.h"

static int num_threads = 1;

static int32_t Run(const tvm_ios::ClaimProgram* program, void** arguments) {
  tvm_ios::Claims claims;
  claims.Begin(program, arguments);
  std::vector<std::thread> others;
  for (int home = 1; home < num_threads; ++home) {
    others.emplace_back([&claims, home] { claims.Work(home, false); });
  }
  claims.Work(0, true);
  for (std::thread& other : others) other.join();
  return claims.error();
}

static void Forget(const tvm_ios::ClaimProgram*) {}

static const tvm_ios::Launcher launcher{Run, Forget};

extern "C" const void* Launcher(int threads) {
  num_threads = threads;
  return &launcher;
}
"""


def random_tables(random: np.random.Generator, columns: int) -> LaunchTables:
    """Parts that wait for earlier ones of other columns, and barriers."""
    parts: list[list[Part]] = [[] for _ in range(columns)]
    barriers: list[tuple[int, ...]] = []
    passed = [-1] * columns
    tile = 0
    for level in range(int(random.integers(2, 12))):
        if level and random.random() < 0.3:
            barriers.append(tuple(map(len, parts)))
        sizes = list(map(len, parts))
        for column in range(columns):
            if random.random() < 0.2:
                continue
            waits = tuple(
                (other, int(random.integers(1, sizes[other] + 1)))
                for other in range(columns)
                if other != column and sizes[other] and random.random() < 1.5 / columns
            )
            count = int(random.integers(1, 7))
            units = tuple(Unit(0, 0, tile + n, tile + n + 1, tile + n) for n in range(count))
            tile += count
            barrier = len(barriers) - 1
            part = Part(
                level,
                column,
                units,
                waits,
                -1 if passed[column] == barrier else barrier,
                bool(random.random() < 0.25),
            )
            passed[column] = barrier
            parts[column].append(part)
    return LaunchTables(tuple(map(tuple, parts)), tuple(barriers))


def logging_kernel() -> tirx.PrimFunc:
    """A kernel that logs each tile: how often it ran, and which number it was."""
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("log_units")
        T.func_ret(tvm.ir.PrimType("int32"))
        pointer = T.arg("log", T.handle("int32"))
        begin, end = (T.arg(name, tirx.Var(name, "int32")) for name in ("begin", "end"))
        log = T.decl_buffer((1 + 2 * MOST_UNITS,), "int32", data=pointer, layout=None)
        with T.serial(begin, end) as tile:
            T.buffer_store(log, log[1 + tile] + 1, [1 + tile])
            T.buffer_store(log, log[0], [1 + MOST_UNITS + tile])
            T.buffer_store(log, log[0] + 1, [0])
        T.Return(tirx.const(0, "int32"))
    return builder.get().with_attr(SYMBOL, "log_units")


def driver(name: str, launch: LaunchCode, workers: int) -> tirx.PrimFunc:
    """Run a launch by the launcher that is set, else on the calling thread as worker 0."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        log, record = T.arg("log", T.handle()), T.arg("record", T.handle())
        arguments, state = on_stack([2], "int64"), on_stack([launch.state_bytes], "int8")
        result = on_stack([1], "int32")

        def call(part: str, *more: object) -> object:
            return T.call_extern("int32", launch.function(part), *more)

        T.evaluate(call("read", arguments.data, log, record))
        T.buffer_store(result, call("launch", arguments.data, state.data), [0])
        with T.If(result[0] < 0), T.Then(), T.serial(workers) as worker:
            T.evaluate(call("work", arguments.data, state.data, worker))
    return builder.get()


class Launches:
    """A library of launches, and the launcher of C++."""

    def __init__(self, tables: Sequence[LaunchTables], folder: Path) -> None:
        call = KernelCall("log_units", (Place(0),), False)
        launches = [
            LaunchCode(f"launch{n}", t, [call], [0] * t.num_units, ARGUMENTS, None, True)
            for n, t in enumerate(tables)
        ]
        drivers = {
            f"run{n}": driver(f"run{n}", launch, len(launch.tables.columns))
            for n, launch in enumerate(launches)
        }
        source = launches_source(launches, NATIVE)
        inner = {"log_units": logging_kernel()}
        built = build_drivers(drivers, KernelFunctions(NATIVE), inner=inner, launches=source)
        self._module = tvm.runtime.Executable(built).jit()
        files = ["launch/claims.cc", "launch/futex.cc", "cores.cc"]
        (folder / "launcher.cc").write_text(CPP)
        sources = [folder / "launcher.cc", *(SOURCES / "runtime" / f for f in files)]
        command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", f"-I{SOURCES}"]
        library = folder / "launcher.so"
        subprocess.run([*command, *map(str, sources), "-o", str(library)], check=True)
        self._launcher = ctypes.CDLL(str(library)).Launcher
        self._launcher.restype = ctypes.c_void_p

    def run(self, number: int, threads: int | None) -> tuple[np.ndarray, np.ndarray]:
        """What is logged and recorded, by C++ on so many threads, or by generated code."""
        launcher = self._launcher(threads) if threads else None
        self._module[SET_LAUNCHER](ctypes.c_void_p(launcher))
        log = tvm.runtime.tensor(np.zeros(1 + 2 * MOST_UNITS, "int32"))
        record = tvm.runtime.tensor(np.full(3 * MOST_UNITS, -1, "int64"))
        self._module[f"run{number}"](log, record)
        return log.numpy(), record.numpy().reshape(-1, 3)


def test_a_part_waits_for_the_last_barrier_before_it() -> None:
    """Column 1 computes nothing between two barriers."""
    one, none = (Unit(0, 0, 0, 1, 0),), ()
    units = [[one, one], [one, none], [one, one]]
    launched = [SimpleNamespace(share=None)] * 3
    tables = launch_tables(launched, WaitPlan(frozenset({1, 2}), ()), units)
    assert tables.barriers == ((1, 1), (2, 1))
    assert [part.barrier for part in tables.columns[0]] == [-1, 0, 1]
    assert [part.barrier for part in tables.columns[1]] == [-1, 1]


def test_waits_count_the_parts_of_a_column() -> None:
    """Column 0 has no part at position 0; a wait for it before its first part is none."""
    one, none = (Unit(0, 0, 0, 1, 0),), ()
    units = [[none, one], [one, one], [one, one]]
    plan = WaitPlan(frozenset(), (Wait(1, 1, 0, 1), Wait(2, 1, 0, 2)))
    tables = launch_tables([SimpleNamespace(share=None)] * 3, plan, units)
    assert [part.waits for part in tables.columns[1]] == [(), (), ((0, 1),)]


COLUMNS = (1, 2, 2, 3, 3, 4, 5, 8, 16)
TABLES = [random_tables(np.random.default_rng(n), COLUMNS[n % len(COLUMNS)] + 1) for n in range(40)]


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Launches:
    if shutil.which("g++") is None:
        pytest.skip("takes a C++ compiler")
    return Launches(TABLES, tmp_path_factory.mktemp("launches"))


@pytest.mark.parametrize("number", range(len(TABLES)))
def test_one_thread_claims_the_same_units_in_the_same_order(launches, number: int) -> None:
    generated, own_record = launches.run(number, None)
    expected, record = launches.run(number, 1)
    units = TABLES[number].num_units
    assert expected[0] == units
    np.testing.assert_array_equal(generated, expected)
    np.testing.assert_array_equal(expected[1 : 1 + units], np.ones(units))
    np.testing.assert_array_equal(own_record[:units, 0] > 0, record[:units, 0] > 0)
    np.testing.assert_array_equal(own_record[:units, 2], record[:units, 2])


@pytest.mark.parametrize("number", range(0, len(TABLES), 3))
def test_units_come_after_what_they_wait_for(launches, number: int) -> None:
    tables = TABLES[number]
    log, _ = launches.run(number, None)
    when = log[1 + MOST_UNITS :]

    def of(part: Part) -> list[int]:
        return [int(when[unit.begin]) for unit in part.units]

    for column in tables.columns:
        for index, part in enumerate(column):
            needed = [(part.column, index), *part.waits]
            if part.barrier >= 0:
                needed += enumerate(tables.barriers[part.barrier])
            for other, completed in needed:
                if completed:
                    assert max(of(tables.columns[other][completed - 1])) < min(of(part))
            assert not part.chain or of(part) == sorted(of(part))
