# SPDX-License-Identifier: Apache-2.0
"""The fake of CUDA's libraries, kernels run on it, and what is read from its journal."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm

from support.cuda.compile import compiler, precompile_header
from support.cuda.run import run_kernel
from support.paths import TESTS, with_path

TARGET = tvm.target.Target(
    {
        "kind": "cuda",
        "arch": "sm_90",
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
    },
    host="llvm",
)
"""A device that need not be here."""

_FAKE = Path(__file__).with_name("fake")


def build_fake_driver(directory: Path) -> Path:
    """Compile ``libcuda.so.1`` and ``libcudart.so.13`` of ``tests/cuda`` into a directory.

    Beside them is the header of kernels.
    """
    driver, runtime = directory / "libcuda.so.1", directory / "libcudart.so.13"
    sources = sorted((TESTS / "cuda").glob("*.cc"))
    # In one piece, since most of the time goes to headers.
    whole = directory / "driver.cc"
    whole.write_text("".join(f'#include "{s}"\n' for s in sources if s.stem != "runtime"))
    _compile(driver, whole)
    versions = f"-Wl,--version-script={TESTS / 'cuda' / 'runtime.map'}"
    _compile(runtime, TESTS / "cuda" / "runtime.cc", driver, versions)
    precompile_header(directory)
    return directory


def build_cudnn_fake_driver(directory: Path) -> Path:
    """Compile ``libcudnn.so.9`` of ``tests/cudnn`` beside what :func:`build_fake_driver` made."""
    library = directory / "libcudnn.so.9"
    if not library.exists():
        sources = sorted((TESTS / "cudnn").glob("*.cc"))
        _compile(library, *sources, directory / "libcuda.so.1")
    return library


def _compile(library: Path, *inputs: str | Path) -> None:
    options = ["-std=c++17", "-O1", "-fvisibility=hidden", "-shared", "-fPIC", f"-I{TESTS}"]
    soname = f"-Wl,-soname,{library.name}"
    subprocess.run(
        [compiler(), *options, soname, *map(str, inputs), "-o", str(library)], check=True
    )


def with_fake_driver(directory: Path) -> dict[str, str]:
    """The environment of a process to which the fake driver is CUDA."""
    found = with_path(directory, variable="LD_LIBRARY_PATH")
    return {
        **with_path(_FAKE, TESTS, of=found),
        "TVM_IOS_FAKE_DRIVER": str(directory / "libcuda.so.1"),
    }


class EmulationError(Exception):
    """What went wrong in the process of an :class:`Emulated`, with its traceback."""


class Emulated:
    """A process in which kernels for CUDA run on the CPU.

    It is there for many calls, as it takes seconds to start; after a crash there is another one.

    Parameters
    ----------
    fake_driver : Path
        What :func:`build_fake_driver` gave.
    seconds : float
        How long a call may take.
    """

    def __init__(self, fake_driver: Path, seconds: float = 300) -> None:
        self._fake_driver = fake_driver
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def run_kernel(
        self,
        function: tvm.tirx.PrimFunc | tvm.IRModule,
        inputs: Sequence[np.ndarray],
        target: tvm.target.Target = TARGET,
        order: str = "issued",
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> list[np.ndarray]:
        """What a function that is scheduled for CUDA computes.

        Parameters
        ----------
        function : PrimFunc or IRModule
            Its parameters (of ``main``) are the inputs, then the outputs, which hold NaN before.
        inputs : sequence of ndarray
            bfloat16 is that of ``ml_dtypes``.
        order : str, optional
            Of blocks and threads: "issued", "reverse", or a number for a random one.
        options : mapping, optional
            Of TVM's pass context.
        """
        return self._request(run_kernel, function, list(inputs), target, order, dict(options))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function at the top of a test's module returns in the process."""
        return self._request(function, *arguments)

    def close(self) -> None:
        """End the process."""
        if self._process is None or self._connection is None:
            return
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._process = self._connection = None

    def _request(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._process is None:
            self._start()
        connection = self._connection
        assert connection is not None
        name, file = function.__name__, inspect.getsourcefile(function)
        connection.send_bytes(pickle.dumps((function.__module__, file, name)))
        connection.send_bytes(pickle.dumps(arguments))
        try:
            if not connection.poll(self._seconds):
                raise EmulationError(f"{name} took more than {self._seconds} s")
            succeeded, result = pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionError, EmulationError) as error:
            self.close()
            log = (self._fake_driver / "log").read_text(errors="replace")[-4000:]
            raise EmulationError(f"{name} ended its process ({error}): {log}") from error
        if not succeeded:
            raise EmulationError(result)
        return result

    def _start(self) -> None:
        self._connection, other = Pipe()
        with open(self._fake_driver / "log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.cuda.worker", str(other.fileno())],
                env=with_fake_driver(self._fake_driver), pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        other.close()


def plain(journal: list[str]) -> list[str]:
    """A journal without its threads; streams, events and graphs numbered as they appear."""
    numbers: dict[str, dict[str, int]] = {}

    def rename(match: re.Match[str]) -> str:
        kind, number = match.group(1), match.group(2)
        if kind == "s" and number == "0":
            return "s0"  # the default stream
        known = numbers.setdefault(kind, {})
        return f"{kind}{known.setdefault(number, len(known) + 1)}"

    lines = [line.split(": ", 1)[1] for line in journal]
    return [re.sub(r"\b([segx])(\d+)\b", rename, line) for line in lines]
