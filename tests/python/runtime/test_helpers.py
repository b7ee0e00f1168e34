# SPDX-License-Identifier: Apache-2.0
"""Helpers join callers: whatever happens to threads, answers are right and nobody waits forever."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tvm_ios
import tvm_ios_runtime
from support.database import branches

CORES = sorted(os.sched_getaffinity(0))[:2]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network for one, two and seven workers."""
    path = tmp_path_factory.mktemp("libraries")
    for workers in (1, 2, 7):
        tvm_ios.compile(branches(), threads=workers, search=False).save(path / f"{workers}.so")
    return path


def image(model: tvm_ios_runtime.Model, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(model.inputs[0].shape).astype("float32")


def expected(libraries: Path, seed: int = 0) -> np.ndarray:
    model = tvm_ios_runtime.load(libraries / "1.so")
    return model(image(model, seed))[0]


@pytest.mark.parametrize("callers", [1, 4])
def test_callers_of_one_model(libraries: Path, callers: int) -> None:
    model = tvm_ios_runtime.load(libraries / "2.so")
    wanted = [expected(libraries, seed) for seed in range(callers)]

    def call(seed: int) -> bool:
        given = image(model, seed)
        return all(np.array_equal(model(given)[0], wanted[seed]) for _ in range(200))

    with ThreadPoolExecutor(callers) as pool:
        assert all(pool.map(call, range(callers)))


def test_two_models_at_the_same_time(libraries: Path) -> None:
    models = [tvm_ios_runtime.load(libraries / f"{workers}.so") for workers in (2, 7)]
    wanted = expected(libraries)

    def call(model: tvm_ios_runtime.Model) -> bool:
        return all(np.array_equal(model(image(model))[0], wanted) for _ in range(100))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(call, models))


def test_models_are_unloaded_while_helpers_leave(libraries: Path) -> None:
    """A helper that comes late must not look at tables that are gone."""
    wanted = expected(libraries)
    for _ in range(40):
        model = tvm_ios_runtime.load(libraries / "2.so")
        for _ in range(3):
            np.testing.assert_array_equal(model(image(model))[0], wanted)
        del model
        gc.collect()


def test_threads_that_called_end(libraries: Path) -> None:
    model = tvm_ios_runtime.load(libraries / "2.so")
    wanted, found = expected(libraries), []
    for _ in range(30):
        thread = threading.Thread(target=lambda: found.append(model(image(model))[0]))
        thread.start()
        thread.join()
    assert len(found) == 30
    assert all(np.array_equal(array, wanted) for array in found)


PROCESS = """
import os, sys, time
import numpy as np
import tvm_ios_runtime
model = tvm_ios_runtime.load(sys.argv[1])
image = np.random.default_rng(0).standard_normal(model.inputs[0].shape).astype("float32")
expected = np.load(sys.argv[2])
{before}
end = time.monotonic() + float(sys.argv[3])
calls = 0
print("begun", flush=True)
while time.monotonic() < end or calls < 20:
    assert np.array_equal(model(image)[0], expected)
    calls += 1
print("right", flush=True)
"""


def process(libraries: Path, seconds: float, before: str = "") -> subprocess.Popen[str]:
    """A process that calls a model for some time, and checks the answers."""
    answer = libraries / "expected.npy"
    if not answer.exists():
        np.save(answer, expected(libraries))
    code = PROCESS.format(before=before)
    command = [sys.executable, "-c", code, str(libraries / "2.so"), str(answer), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_process_that_is_stopped_in_the_middle_of_calls(libraries: Path) -> None:
    with process(libraries, 2.0) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        for _ in range(30):
            running.send_signal(signal.SIGSTOP)
            time.sleep(0.02)
            running.send_signal(signal.SIGCONT)
            time.sleep(0.01)
        assert running.stdout.readline() == "right\n"


def test_a_process_that_is_pinned_after_loading(libraries: Path) -> None:
    pin = f"model(image)\nos.sched_setaffinity(0, {{{CORES[0]}}})"
    with process(libraries, 0.5, pin) as running:
        assert running.communicate(timeout=120)[0] == "begun\nright\n"


def test_all_threads_are_pinned_to_one_core_meanwhile(libraries: Path) -> None:
    with process(libraries, 1.5) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        for turn in range(20):
            for thread in os.listdir(f"/proc/{running.pid}/task"):
                os.sched_setaffinity(int(thread), {CORES[turn % len(CORES)]})
            time.sleep(0.02)
        assert running.stdout.readline() == "right\n"


def test_beside_more_busy_processes_than_cores(libraries: Path) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        with process(libraries, 0.5) as running:
            assert running.communicate(timeout=120)[0] == "begun\nright\n"
    finally:
        for other in busy:
            other.kill()
            other.wait()


def test_an_interrupted_call_leaves_the_model_usable(libraries: Path) -> None:
    interrupt = """
import signal, threading
def interrupted():
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            model(image)
    except KeyboardInterrupt:
        return
for _ in range(5):
    interrupted()
"""
    with process(libraries, 0.1, interrupt) as running:
        assert running.communicate(timeout=120)[0] == "begun\nright\n"
