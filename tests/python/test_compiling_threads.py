# SPDX-License-Identifier: Apache-2.0
"""Threads that read and compile networks at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm

import tvm_ios
from support.cli import SHAPE, save_branches
from support.database import branches
from tvm_ios.frontend.models import load_model
from tvm_ios.lowering import emitter
from tvm_ios.relax_ir.building import building
from tvm_ios.transform import InterOperatorSchedule, pipeline

THREADS, TIMES = 6, 2


@pytest.fixture
def _switching() -> Iterator[None]:
    """Let threads take turns after a hundredth of the time that they usually have."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[], object]) -> list[object]:
    """What several threads make that begin together."""
    begin = threading.Barrier(THREADS)

    def several() -> list[object]:
        begin.wait()
        return [work() for _ in range(TIMES)]

    with ThreadPoolExecutor(THREADS) as pool:
        made = [pool.submit(several) for _ in range(THREADS)]
    return [result for done in made for result in done.result()]


@pytest.mark.usefixtures("_switching")
def test_threads_compile_one_network() -> None:
    module = branches()
    models = at_once(lambda: tvm_ios.compile(module, threads=1, search=False))
    (image,) = models[0].inputs
    x = np.random.default_rng(2).standard_normal(image.shape, "float32")
    expected = models[0](x)
    for model in models[1:]:
        np.testing.assert_array_equal(model(x), expected)


@pytest.mark.usefixtures("_switching")
def test_threads_read_networks(tmp_path: Path) -> None:
    path = tmp_path / "branches.onnx"
    save_branches(path)
    texts = at_once(lambda: load_model(str(path), {"image": SHAPE}).script())
    assert len(set(texts)) == 1
    texts = at_once(lambda: load_model("zoo:nasrnn").script())
    assert len(set(texts)) == 1


@pytest.mark.usefixtures("_switching")
def test_threads_use_the_pass() -> None:
    module, target = branches(), tvm.target.Target("llvm")
    lowered = at_once(lambda: InterOperatorSchedule(target, search=False)(module))
    assert len(lowered) == THREADS * TIMES
    at_once(lambda: tvm.compile(module, target, relax_pipeline=pipeline(search=False)))


def test_an_interrupt_gives_the_lock_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(emitter, "_emit_blocks", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tvm_ios.compile(branches(), search=False)
    with ThreadPoolExecutor(1) as pool:
        lock = building()
        assert pool.submit(lock.acquire, timeout=60).result()
        pool.submit(lock.release).result()
        pool.submit(tvm_ios.compile, branches(), search=False).result()


FORK = """
import os, threading
from tvm_ios.relax_ir.building import building
held, go_on = threading.Event(), threading.Event()
def hold():
    with building(), building():
        held.set()
        go_on.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    os._exit(0 if building().acquire(timeout=10) else 1)
_, status = os.waitpid(child, 0)
go_on.set()
thread.join()
assert status == 0, status
with building():
    print("parent is right")
"""


def test_a_forked_process_has_a_lock_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], env=os.environ, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "parent is right\n"), done.stderr
