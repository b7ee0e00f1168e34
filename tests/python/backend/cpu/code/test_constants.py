# SPDX-License-Identifier: Apache-2.0
"""The files of constants: one for equal contents, whichever threads write them at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tvm

from tvm_ios.backend.cpu.code.constants import Constants

OBJECT = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x01\x00\x3e\x00" + bytes(44)
"""The header of object code for x86-64."""


def constants_of(*arrays: np.ndarray) -> Constants:
    """The constants of a stage whose kernel reads these arrays."""
    return Constants.of([SimpleNamespace(implementations=[SimpleNamespace(inputs=arrays)])])


def test_equal_contents_share_a_file() -> None:
    first, again = (constants_of(np.arange(40.0)) for _ in range(2))
    assert first.path == again.path
    assert constants_of(np.arange(41.0)).path != first.path


def test_a_file_that_is_being_read_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread, which compiles the same network, has the same constants."""
    array = np.random.default_rng().standard_normal(40)
    constants, load, seen = constants_of(array), tvm.runtime.load_static_library, []

    def load_beside_a_writer(path: str, names: list[str]) -> tvm.runtime.Module:
        writer = threading.Thread(target=constants_of, args=(array,))
        writer.start()
        writer.join(1)  # it may have to wait for this thread
        seen.append(Path(path).read_bytes()[:4])
        return load(path, names)

    monkeypatch.setattr(tvm.runtime, "load_static_library", load_beside_a_writer)
    constants.module(OBJECT)
    assert seen == [b"\x7fELF"]


BEGIN = """
import os, threading, time
from types import SimpleNamespace
import numpy as np
from tvm_ios.backend.cpu.code import constants

def path_of(number):
    implementation = SimpleNamespace(inputs=[np.full(40, number)])
    return constants.Constants.of([SimpleNamespace(implementations=[implementation])]).path
"""

THREADS = """
made, original = [], constants.TemporaryFolder

def make_slowly():
    made.append(original())
    time.sleep(0.2)
    return made[-1]

constants.TemporaryFolder = make_slowly
paths = [None] * 4
def write(number):
    paths[number] = path_of(number)
threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(made) == 1, len(made)
assert {path.parent for path in paths} == {made[0].path}
"""

FORK = """
kept = path_of(1)
child = os.fork()
if child == 0:
    mine = [path_of(number) for number in (1, 2)]
    right = all(path.exists() and path.parent != kept.parent for path in mine)
    os._exit(0 if right else 1)
_, status = os.waitpid(child, 0)
assert status == 0, "a child writes to its parent's folder"
assert kept.exists()
"""

FORK_WHILE_WRITING = """
reached, go_on = threading.Event(), threading.Event()
original = constants.tempfile.NamedTemporaryFile

def pause(**options):
    reached.set()
    go_on.wait()
    return original(**options)

constants.tempfile.NamedTemporaryFile = pause
thread = threading.Thread(target=path_of, args=(1,))
thread.start()
reached.wait()
child = os.fork()
constants.tempfile.NamedTemporaryFile = original
if child == 0:
    path_of(2)
    os._exit(0)
_, status = os.waitpid(child, 0)
go_on.set()
thread.join()
assert status == 0, status
"""


@pytest.mark.parametrize(
    "code", [THREADS, FORK, FORK_WHILE_WRITING], ids=["threads", "fork", "fork while writing"]
)
def test_a_process_has_one_folder(code: str, tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
