# SPDX-License-Identifier: Apache-2.0
"""Processes that are forked after a model has run, as servers fork their workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_ios
from database_support import branches

# The parent's model; a child that calls it in some way, and ends as Python ends; and who waits.
PREPARE = """
import os, sys, threading
import numpy as np
{load}
inputs = [np.random.default_rng(0).standard_normal(i.shape, "float32") for i in model.inputs]
def call():
    results = model(*inputs)
    return [np.array(r) for r in (results if isinstance(results, (list, tuple)) else [results])]
expected = call()
"""
FORK = """
child = os.fork()
if child == 0:
    {child}
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert all(map(np.array_equal, call(), expected))
print("parent is right")
"""
CHECK = "assert all(map(np.array_equal, call(), expected))"
CHILDREN = {
    "one call": [CHECK],
    "many calls": [f"for _ in range(50): {CHECK}"],
    "in threads": [
        "from concurrent.futures import ThreadPoolExecutor",
        "results = ThreadPoolExecutor(3).map(lambda _: call(), range(9))",
        "assert all(np.array_equal(r[0], expected[0]) for r in results)",
    ],
    "its own child": [
        CHECK,
        "grandchild = os.fork()",
        CHECK,
        "if not grandchild: sys.exit(0)",
        "assert os.waitpid(grandchild, 0)[1] == 0",
    ],
    "no call": ["pass"],
}
LOADS = {
    "runtime": "import tvm_ios_runtime; model = tvm_ios_runtime.load('model.so')",
    "compiler": "import tvm_ios; model = tvm_ios.load('model.so')",
}


def forking(lines: list[str]) -> str:
    """Code of a process whose child does this."""
    return FORK.format(child="\n    ".join(lines))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fork")
    tvm_ios.compile(branches(), threads=2, search=False).save(path / "model.so")
    return path


def run(code: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=120,
        check=False, env=os.environ | {"TMPDIR": str(directory)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_calls_the_parents_model(child: str, load: str, directory: Path) -> None:
    code = PREPARE.format(load=LOADS[load]) + forking(CHILDREN[child])
    assert run(code, directory) == "parent is right\n"


def test_a_child_leaves_the_parents_files(directory: Path) -> None:
    """A model that was compiled and not saved is in a temporary folder of the parent's."""
    load = (
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import tvm_ios\n"
        "from database_support import branches\n"
        "model = tvm_ios.compile(branches(), threads=2, search=False)"
    )
    saved = "model.save('again.so'); print(os.path.getsize('again.so') > 0)"
    code = PREPARE.format(load=load) + forking([CHECK]) + saved
    assert run(code, directory) == "parent is right\nTrue\n"
    assert not list(directory.glob("tvm-ios-*"))  # which the parent removes in the end
