# SPDX-License-Identifier: Apache-2.0
"""A process that was given some of the cores computes on these alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_ios
from database_support import branches

CORES = sorted(os.sched_getaffinity(0))[:2]

# Each begins on one core, and ends by printing where its threads may run: all of them.
BEGIN = "import os\nos.sched_setaffinity(0, {%d})\n"
END = """
cores = [os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")]
print(len(cores) >= 2, sorted(set.union(*cores)))
"""
MEASURE = """
from tvm_ios.target import available_cores
from tvm_ios.threads import use_workers
assert available_cores() == 1
assert use_workers(2)
assert available_cores() == 1
"""
RUN = """
import numpy as np
import tvm_ios_runtime
model = tvm_ios_runtime.load("model.so")
model(*(np.zeros(value.shape, value.dtype) for value in model.inputs))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network for two threads."""
    path = tmp_path_factory.mktemp("library") / "model.so"
    tvm_ios.compile(branches(), threads=2, search=False).save(path)
    return path


def threads_of(code: str, core: int, directory: Path, bind: str | None = None) -> str:
    """What a process that was given one core prints, with ``TVM_BIND_THREADS`` or without it."""
    environment = {k: v for k, v in os.environ.items() if k != "TVM_BIND_THREADS"}
    if bind is not None:
        environment["TVM_BIND_THREADS"] = bind
    return subprocess.run(
        [sys.executable, "-c", BEGIN % core + code + END],
        cwd=directory,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("bind", [None, "1"])
def test_what_is_measured(core: int, bind: str | None, tmp_path: Path) -> None:
    assert threads_of(MEASURE, core, tmp_path, bind) == f"True [{core}]"


@pytest.mark.parametrize("core", CORES)
def test_a_compiled_network(core: int, library: Path) -> None:
    assert threads_of(RUN, core, library.parent) == f"True [{core}]"
