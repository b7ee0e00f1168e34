# SPDX-License-Identifier: Apache-2.0
"""Processes that are forked after a model has run, as servers fork their workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tvm import relax

import tvm_ios
from support.database import branches
from support.networks import conv, relax_module

# The parent's model; a child that does something, and who waits for it.
PREPARE = """
import os, subprocess, sys, time
import numpy as np
{load}
inputs = [np.random.default_rng(0).standard_normal(i.shape, "float32") for i in model.inputs]
def call():
    results = model(*inputs)
    return [np.array(r) for r in (results if isinstance(results, (list, tuple)) else [results])]
def refused():
    try:
        call()
    except RuntimeError as error:
        return "fork before the first call" in str(error)
"""
FORK = """
child = os.fork()
if child == 0:
    {child}
    os._exit(0)  # as multiprocessing ends: TVM waits at an exit for threads that are not there
_, status = os.waitpid(child, 0)
assert status == 0, status
call()
print("parent is right")
"""
LOADS = {
    "runtime": "import tvm_ios_runtime; model = tvm_ios_runtime.load('{}.so')",
    "compiler": "import tvm_ios; model = tvm_ios.load('{}.so')",
}
WAITS = {"spinning": "call()", "sleeping": "call(); time.sleep(0.5)"}
"""What the parent does before: TVM's threads look for work for a while, and then sleep."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fork")
    for threads in (1, 2):
        model = tvm_ios.compile(branches(), threads=threads, search=False)
        model.save(path / f"on{threads}.so")

    def body(emit, x):
        x = emit(conv(x, 16))
        return relax.Tuple([x, x])

    mod = relax_module(body, (1, 8, 20, 20))
    tvm_ios.compile(mod, threads=2, search=False).save(path / "machine.so")
    return path


def run(code: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=60,
        check=False, env=os.environ | {"TMPDIR": str(directory)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("wait", ["spinning", pytest.param("sleeping", marks=pytest.mark.slow)])
def test_a_child_has_helpers_of_its_own(wait: str, load: str, directory: Path) -> None:
    code = PREPARE.format(load=LOADS[load].format("on2")) + WAITS[wait] + "\nexpected = call()\n"
    check = "assert all(np.array_equal(call()[0], expected[0]) for _ in range(20))"
    assert run(code + FORK.format(child=check), directory) == "parent is right\n"


@pytest.mark.parametrize("wait", ["spinning", pytest.param("sleeping", marks=pytest.mark.slow)])
def test_a_child_is_told(wait: str, directory: Path) -> None:
    """What needs a virtual machine needs TVM's threads: it neither hangs nor dies."""
    code = PREPARE.format(load=LOADS["runtime"].format("machine")) + WAITS[wait]
    assert run(code + FORK.format(child="assert refused()"), directory) == "parent is right\n"


@pytest.mark.parametrize("load", LOADS)
def test_a_model_on_one_thread_is_called_by_children(load: str, directory: Path) -> None:
    code = PREPARE.format(load=LOADS[load].format("on1")) + "expected = call()\n"
    check = "assert np.array_equal(call()[0], expected[0])"
    assert run(code + FORK.format(child=check), directory) == "parent is right\n"


@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS)
def test_children_that_are_forked_before_the_first_call(load: str, directory: Path) -> None:
    code = PREPARE.format(load=LOADS[load].format("on2"))
    assert run(code + FORK.format(child="call(); call()"), directory) == "parent is right\n"


@pytest.mark.slow
@pytest.mark.parametrize("wait", WAITS)
def test_other_programs_are_started(wait: str, directory: Path) -> None:
    """In between there is a forked process, which does what is to be done before they are."""
    code = PREPARE.format(load=LOADS["compiler"].format("on2")) + WAITS[wait]
    code += "\nsubprocess.run(['true'], preexec_fn=lambda: None, check=True); print('started')"
    assert run(code, directory) == "started\n"


@pytest.mark.slow
def test_a_child_leaves_the_parents_files(directory: Path) -> None:
    """A temporary folder is removed at the end of the process that made it, and of no other."""
    code = """
import os, sys
from tvm_ios.support.folders import TemporaryFolder
folder = TemporaryFolder()
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(folder.path.is_dir())
"""
    assert run(code, directory) == "True\n"
    assert not list(directory.glob("tvm-ios-*"))
