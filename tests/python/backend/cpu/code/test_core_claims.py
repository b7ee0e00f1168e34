# SPDX-License-Identifier: Apache-2.0
"""Claims of cores by the tasks of a launch: no two start on the same core if there are enough.

What is emitted for compiled networks and what C++ has for timed stages do the same.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from tvm_ios.backend.cpu.code.core_claims import CoreClaims
from tvm_ios.backend.cpu.code.functions import build_functions
from tvm_ios.target import resolve

CORES = sorted(os.sched_getaffinity(0))
SOURCES = Path(__file__).parents[5] / "src"
CPP = """
#include <sched.h>
#include <stdint.h>

#include "runtime/core_claims.h"

extern "C" void cores(int32_t* cores, int tasks) {
  tvm_ios::CoreClaims claims;
  cores[0] = sched_getcpu();
  claims.Claim();
  for (int task = 1; task < tasks; ++task) {
    claims.ClaimDistinct();
    cores[task] = sched_getcpu();
  }
}
"""

Launch = Callable[[np.ndarray], object]
"""A function that writes on which core each of its tasks starts, all on the calling thread."""


def emitted(cores: np.ndarray) -> None:
    tasks, target = len(cores), resolve("llvm")
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("cores")
        starts = T.arg("cores", T.buffer((tasks,), "int32", layout=None))
        claims = CoreClaims(target)
        T.buffer_store(starts, T.call_extern("int32", "sched_getcpu"), [0])
        with claims.before_launch():
            for task in range(1, tasks):
                claims.at_start(tvm.tirx.const(task, "int32"))
                T.buffer_store(starts, T.call_extern("int32", "sched_getcpu"), [task])
            claims.at_start(tvm.tirx.const(0, "int32"))  # last: it may change its core
    result = tvm.runtime.tensor(cores)
    build_functions({"cores": builder.get()}, target).mod["cores"](result)
    cores[:] = result.numpy()


@pytest.fixture(scope="module", params=["emitted", "C++"])
def launch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    if request.param == "emitted":
        return emitted
    if shutil.which("g++") is None:
        pytest.skip("takes a C++ compiler")
    folder = tmp_path_factory.mktemp("claims")
    (folder / "cores.cc").write_text(CPP)
    files = [folder / "cores.cc", SOURCES / "runtime/core_claims.cc", "-o", folder / "cores.so"]
    command = ["g++", "-std=c++17", "-shared", "-fPIC", f"-I{SOURCES}"]
    subprocess.run([*command, *map(str, files)], check=True)
    library = ctypes.CDLL(str(folder / "cores.so"))
    return lambda cores: library.cores(ctypes.c_void_p(cores.ctypes.data), len(cores))


def starts(launch: Launch, tasks: int, allowed: Sequence[int]) -> tuple[list[int], set[int]]:
    """Where tasks start, and where their thread may run afterwards."""
    cores = np.full(tasks, -1, "int32")

    def run() -> set[int]:
        os.sched_setaffinity(0, allowed)
        launch(cores)
        return os.sched_getaffinity(0)

    affinity = in_thread(run)
    return cores.tolist(), affinity


def in_thread(work: Callable[[], set[int]]) -> set[int]:
    results: list[set[int]] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.skipif(len(CORES) < 2, reason="takes two cores")
def test_a_task_leaves_a_claimed_core(launch: Launch) -> None:
    (caller, worker), affinity = starts(launch, 2, CORES[:2])
    assert {caller, worker} == set(CORES[:2])
    assert affinity == set(CORES[:2])


@pytest.mark.parametrize("core", CORES[:2])
def test_more_tasks_than_cores_share_them(launch: Launch, core: int) -> None:
    assert starts(launch, 3, [core]) == ([core] * 3, {core})


def test_other_systems_are_left_alone() -> None:
    target = tvm.target.Target({"kind": "llvm", "mtriple": "arm64-apple-macos"})
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("nothing")
        claims = CoreClaims(target)
        with claims.before_launch():
            claims.at_start(tvm.tirx.const(1, "int32"))
            T.evaluate(tvm.tirx.const(0, "int32"))
    assert "call_extern" not in builder.get().script()
