# SPDX-License-Identifier: Apache-2.0
"""The programs of ``examples/``."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm

import tvm_ios_runtime
from support.cli import SHAPE, Compiled

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


@pytest.fixture
def server(compiled: Compiled) -> Iterator[str]:
    command = [sys.executable, str(EXAMPLES / "serve.py"), str(compiled.directory / "model.so")]
    process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(SECONDS) == 0


def _post(url: str, content: bytes) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, content), timeout=SECONDS) as answer:
        return answer.read()


def test_no_answer_is_wrong_or_lost(server: str, compiled: Compiled) -> None:
    model = tvm_ios_runtime.load(compiled.directory / "model.so")
    (name,) = [info.name for info in model.inputs]
    (output,) = [info.name for info in model.outputs]
    random = np.random.default_rng(0)
    images = random.standard_normal((8, *SHAPE)).astype("float32")
    expected = [model(image)[0] for image in images]

    def ask(number: int) -> bool:
        content = io.BytesIO()
        np.savez(content, **{name: images[number % len(images)]})
        with np.load(io.BytesIO(_post(server, content.getvalue()))) as answer:
            return np.array_equal(answer[output], expected[number % len(images)])

    with ThreadPoolExecutor(6) as clients:
        assert all(clients.map(ask, range(200)))


@pytest.mark.parametrize("content", [b"no archive", b"PK\x03\x04 cut off"])
def test_a_bad_request_gets_a_sentence(server: str, content: bytes) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        _post(server, content)
