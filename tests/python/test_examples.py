# SPDX-License-Identifier: Apache-2.0
"""The programs of ``examples/``."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm

import tvm_ios
import tvm_ios_runtime
from support.cli import SHAPE, Compiled, save_branches

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 60  # until a process is given up


def _config(*options: str) -> list[str]:
    command = [str(Path(sys.executable).with_name("tvm-ffi-config")), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_a_model_runs_without_python(compiled: Compiled, tmp_path: Path) -> None:
    tvm_lib, ffi_lib = str(Path(tvm.__file__).parent / "lib"), _config("--libdir")[0]
    program = tmp_path / "run_model"
    command = ["g++", "-std=c++17", "-O2", "-Wall", str(EXAMPLES / "run_model.cc")]
    command += ["-o", str(program), *_config("--cxxflags", "--ldflags", "--libs")]
    command += [f"-L{tvm_lib}", "-Wl,--no-as-needed", "-ltvm_runtime"]
    subprocess.run([*command, f"-Wl,-rpath,{tvm_lib},-rpath,{ffi_lib}"], check=True)
    library = compiled.directory / "model.so"
    done = subprocess.run(
        [str(program), str(library), *map(str, SHAPE)],
        capture_output=True, text=True, check=True, timeout=SECONDS,
    )  # fmt: skip
    numbers = [float(text) for text in done.stdout.partition(":")[2].split()]
    image = ((np.arange(np.prod(SHAPE)) % 17) / 17 - 0.5).astype("float32").reshape(SHAPE)
    expected = tvm_ios_runtime.load(library)(image)[0].reshape(-1)
    np.testing.assert_allclose(numbers, expected[: len(numbers)], rtol=1e-4, atol=1e-5)
    assert int(re.match(r"\d+", done.stdout)[0]) == expected.size
    failed = subprocess.run([str(program), "none.so"], capture_output=True, text=True)
    assert failed.returncode == 1
    assert "none.so" in failed.stderr


@pytest.fixture(scope="module")
def batched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that takes any batch."""
    folder = tmp_path_factory.mktemp("batched")
    save_branches(folder / "m.onnx", batch="N")
    model = tvm_ios.compile(folder / "m.onnx", search=False, threads=2, batch_sizes=[1, 4])
    model.save(folder / "model.so")
    return folder / "model.so"


@pytest.fixture(params=["one", "any"])
def library(request: pytest.FixtureRequest, compiled: Compiled, batched: Path) -> Path:
    """A library for one image, and one that takes any batch."""
    return compiled.directory / "model.so" if request.param == "one" else batched


@pytest.fixture
def server(library: Path) -> Iterator[str]:
    command = [sys.executable, str(EXAMPLES / "serve.py"), str(library)]
    process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(SECONDS) == 0


def _post(url: str, content: bytes) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, content), timeout=SECONDS) as answer:
        return answer.read()


def test_no_answer_is_wrong_or_lost(server: str, library: Path) -> None:
    model = tvm_ios_runtime.load(library)
    (name,) = [info.name for info in model.inputs]
    (output,) = [info.name for info in model.outputs]
    random = np.random.default_rng(0)
    sizes = [1, 2, 1, 3] if model.any_batch else [1]
    images = [
        random.standard_normal((sizes[i % len(sizes)], *SHAPE[1:])).astype("float32")
        for i in range(8)
    ]
    expected = [model(image)[0] for image in images]

    def ask(number: int) -> bool:
        content = io.BytesIO()
        np.savez(content, **{name: images[number % len(images)]})
        with np.load(io.BytesIO(_post(server, content.getvalue()))) as answer:
            computed, wanted = answer[output], expected[number % len(images)]
        if model.any_batch:  # rounded as in another batch
            return np.allclose(computed, wanted, rtol=1e-4, atol=1e-5)
        return np.array_equal(computed, wanted)

    with ThreadPoolExecutor(6) as clients:
        assert all(clients.map(ask, range(200)))


class _Slow:
    """A model whose calls end when they are let go; it doubles what it is given."""

    any_batch = True

    def __init__(self, callers: int, batch: int) -> None:
        self.metadata = {"requests": {"callers": callers, "batch": batch}}
        self.calls: list[int] = []
        self.go = threading.Semaphore(0)

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.calls.append(len(inputs["x"]))
        assert self.go.acquire(timeout=SECONDS)
        if len({len(array) for array in inputs.values()}) > 1:
            raise ValueError("of different lengths")
        return {"y": 2 * inputs["x"]}


def _batcher(model: _Slow) -> object:
    spec = importlib.util.spec_from_file_location("serve", EXAMPLES / "serve.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Batcher(model)


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(1e-3)


def test_a_library_of_one_batch_is_called_on_all_cores() -> None:
    """One that says nothing of how it was called."""
    model = _Slow(callers=1, batch=1)
    model.metadata, model.any_batch = {}, False
    batcher, cores = _batcher(model), os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as clients:
        asked = [clients.submit(batcher.run, {"x": np.ones((1, 2))}) for _ in range(cores)]
        _wait_for(lambda: len(model.calls) == cores)
        model.go.release(cores)
        assert all(answer.result(SECONDS)["y"].sum() == 4 for answer in asked)


def test_as_many_calls_run_at_once_as_was_measured_to_be_fastest() -> None:
    model = _Slow(callers=2, batch=1)
    batcher = _batcher(model)
    arrays = [np.full((1, 2), number) for number in range(3)]
    with ThreadPoolExecutor(len(arrays)) as clients:
        asked = [clients.submit(batcher.run, {"x": array}) for array in arrays]
        _wait_for(lambda: len(model.calls) == 2 and batcher._waiting.qsize() == 1)
        model.go.release(len(arrays))
        for array, answer in zip(arrays, asked, strict=True):
            np.testing.assert_array_equal(answer.result(SECONDS)["y"], 2 * array)


def test_requests_that_wait_are_one_call_of_the_batch_that_was_fastest() -> None:
    model = _Slow(callers=1, batch=3)
    batcher = _batcher(model)
    arrays = [np.full((size, 2), size + 0.5) for size in (1, 1, 1, 1, 5)]
    with ThreadPoolExecutor(len(arrays)) as clients:
        asked = []
        for number, array in enumerate(arrays):  # in this order
            asked.append(clients.submit(batcher.run, {"x": array}))
            _wait_for(lambda: len(model.calls) == 1 and batcher._waiting.qsize() == number)  # noqa: B023
        model.go.release(len(arrays))
        for array, answer in zip(arrays, asked, strict=True):
            np.testing.assert_array_equal(answer.result(SECONDS)["y"], 2 * array)
    assert model.calls == [1, 3, 5]


def test_a_request_that_fails_fails_alone() -> None:
    model = _Slow(callers=1, batch=8)
    batcher = _batcher(model)
    good, bad = (
        {"x": np.ones((2, 2)), "z": np.ones((2, 1))},
        {"x": np.ones((1, 2)), "z": np.ones((3, 1))},
    )
    with ThreadPoolExecutor(4) as clients:
        held = clients.submit(batcher.run, good)
        _wait_for(lambda: len(model.calls) == 1)
        asked = [clients.submit(batcher.run, inputs) for inputs in (good, bad, good)]
        _wait_for(lambda: batcher._waiting.qsize() == len(asked))
        model.go.release(9)
        with pytest.raises(ValueError, match="different lengths"):
            asked[1].result(SECONDS)
        for answer in (held, asked[0], asked[2]):
            np.testing.assert_array_equal(answer.result(SECONDS)["y"], 2 * good["x"])


@pytest.mark.parametrize("content", [b"no archive", b"PK\x03\x04 cut off"])
def test_a_bad_request_gets_a_sentence(server: str, content: bytes) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        _post(server, content)
