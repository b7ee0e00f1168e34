# SPDX-License-Identifier: Apache-2.0
"""Measuring in a process of its own: what crashes or hangs there costs only itself."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tvm
from tvm import tirx
from tvm.rpc import base
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from support.networks import NATIVE, conv, few_stages, relax_module
from support.rpc import wait_until
from tvm_ios import DeviceError
from tvm_ios.backend.cpu.code import objects
from tvm_ios.backend.cpu.code.c_functions import pointer_function
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate
from tvm_ios.measure.transport.locations import ProcessRunner
from tvm_ios.measure.transport.providers import LoopbackProvider, LoopbackServer
from tvm_ios.measure.transport.session import DeviceLost
from tvm_ios.options import Options
from tvm_ios.support.caches import OBJECTS

LIMIT = 0.5  # seconds of a stage


def _scheduler() -> Scheduler:
    """Two convolutions that can be merged."""
    mod = relax_module(
        lambda emit, x: relax_concat([emit(conv(x, 24, seed=seed)) for seed in (1, 2)]),
        (1, 8, 9, 9),
    )
    return Scheduler.prepare(
        mod, NATIVE, options=Options(winograd=False), runner=ProcessRunner(LIMIT)
    )


def relax_concat(values: list[tvm.relax.Expr]) -> tvm.relax.Expr:
    return tvm.relax.op.concat(values, axis=1)


def _calling(kernel: Kernel, name: str, function: str, *arguments: object) -> tirx.PrimFunc:
    """A kernel's function that only calls a function of the C library."""
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name(name)
        T.func_ret(tvm.ir.PrimType("int32"))
        for i, spec in enumerate(kernel.tensors):
            T.arg(f"p{i}", T.handle(spec.dtype))
        for number in ("begin", "end", "following"):  # which those without it ignore
            T.arg(number, tirx.Var(number, "int32"))
        T.evaluate(tirx.call_extern("int32", function, *arguments))
        T.Return(tirx.const(0, "int32"))
    return builder.get()


def _build_by(
    build: Callable[[Kernel, int, str], tirx.PrimFunc], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Build kernels otherwise, of which nothing is known or kept."""
    monkeypatch.setenv(OBJECTS, "")
    monkeypatch.setattr(objects, "pointer_function", build)


@pytest.mark.parametrize("function", ["abort", "pause"])
def test_a_stage_that_crashes_or_hangs_is_not_used(
    function: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = _scheduler()
    sound = {i.kernel.key for i in made.stage_builder.lowered.implementations}

    def compiled(kernel: Kernel, phase: int, name: str) -> tirx.PrimFunc:
        if kernel.key in sound:
            return pointer_function(kernel, phase, name)
        return _calling(kernel, name, function)

    _build_by(compiled, monkeypatch)
    with caplog.at_level(logging.WARNING):
        found = made.search()
    convolutions = tuple(op.index for op in made.graph.operators if op.kind == "conv2d")
    merged, both = made.cost([Candidate(convolutions, s) for s in ("merge", "concurrent")])
    assert merged == math.inf
    assert 0 < both < math.inf
    assert 0 < found.estimates["scheduled"] < math.inf
    assert any("crashed, took too long" in record.message for record in caplog.records)


@pytest.mark.slow
def test_an_operator_that_crashes_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _scheduler()
    _build_by(lambda kernel, _phase, name: _calling(kernel, name, "abort"), monkeypatch)
    with pytest.raises(DeviceError, match="this machine"):
        made.search()


def test_the_process_starts_when_a_network_is_prepared() -> None:
    runner = ProcessRunner(LIMIT)
    assert runner.provider.server is None
    runner.start()
    server = runner.provider.server
    runner.start()
    assert runner.provider.server is server
    assert server.process.poll() is None
    runner.provider.close()


@pytest.mark.slow
def test_the_prices_of_a_user_need_no_process() -> None:
    network = relax_module(lambda emit, x: emit(conv(x, 8)), (1, 8, 6, 6))
    runner = ProcessRunner(LIMIT)
    scheduler = Scheduler.prepare(network, NATIVE, runner=runner, cost_model=few_stages)
    assert len(scheduler.search().stages) == 1
    assert runner.provider.server is None


def test_the_process_ends_with_the_search(tmp_path: Path) -> None:
    """Also where the search has no time to end it."""
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal\n"
        "from tvm_ios.measure.transport.providers import LoopbackProvider\n"
        "source = LoopbackProvider(1.0)\n"
        "session = source.connect()\n"
        "print(source.server.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, timeout=60, check=False)
    group = int(done.stdout)
    wait_until(lambda: not _alive(group), 10.0)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_server_that_a_thread_waits_for_ends_with_the_others() -> None:
    source, failures = LoopbackProvider(LIMIT), []
    source.connect().close()
    server = source.server
    os.kill(server.process.pid, signal.SIGSTOP)

    def wait() -> None:
        try:
            source.connect()
        except DeviceLost as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: source.server is None, 10.0)
    source.close()
    thread.join(10.0)
    assert len(failures) == 1
    wait_until(lambda: not _alive(server.process.pid), 10.0)


def test_crashes_leave_no_core_files(server: LoopbackServer) -> None:
    server.connect()
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    assert re.search(r"Max core file size +0 +0", limits)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    process = LoopbackServer.start()
    yield process
    process.close()


def strangers(port: int, key: bytes) -> list[socket.socket]:
    """Those who connect without knowing the key, and stay."""
    wrong = b"client:" + bytes(len(key))
    greetings = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<ii", base.RPC_MAGIC, 1 << 30),
        struct.pack("<ii", base.RPC_MAGIC, -1),
        struct.pack("<ii", base.RPC_MAGIC, len(wrong)) + wrong,
        struct.pack("<ii", base.RPC_MAGIC, len(wrong)) + wrong[:7],  # and the rest never comes
    ]
    sockets = []
    for greeting in greetings:
        sockets.append(socket.create_connection(("127.0.0.1", port)))
        sockets[-1].sendall(greeting)
    return sockets


def test_strangers_are_not_served_and_keep_nobody_waiting(server: LoopbackServer) -> None:
    key = server.key.encode()
    server.connect()
    others = strangers(server.port, key)
    begin = time.monotonic()
    session = server.connect()
    assert session.get_function("tvm_ios.runtime.Describe") is not None
    assert time.monotonic() - begin < 4.0  # less than a stranger is waited for
    for other in others:
        other.close()
    assert server.process.poll() is None


def test_the_key_is_no_argument(server: LoopbackServer) -> None:
    server.connect()
    command = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    assert b"tvm_ios.measure.transport.server" in command
    assert server.key.encode() not in command


@pytest.mark.slow
def test_files_of_the_current_directory_are_not_imported(tmp_path: Path) -> None:
    """A file of the user's that is named as a module is."""
    for name in ("socket", "struct", "tvm", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from here')")
    code = "import sys; sys.path.remove(''); "
    code += "from tvm_ios.measure.transport.providers import LoopbackProvider; "
    code += "LoopbackProvider(1.0).connect(); print('connected')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "connected\n", done.stderr


@pytest.mark.slow
def test_what_the_process_says_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as the last words of a kernel that fails an assertion while it is timed."""
    made = _scheduler()
    last_words = ("__assert_fail", "a reason", "kernel.c", 17, "kernel")
    _build_by(lambda kernel, _phase, name: _calling(kernel, name, *last_words), monkeypatch)
    with caplog.at_level(logging.INFO, "tvm_ios"):
        with pytest.raises(DeviceError, match="this machine"):
            made.search()
        made.close()
    said = [r.getMessage() for r in caplog.records if "the isolated process: " in r.getMessage()]
    assert any("kernel.c:17: kernel" in line and "a reason" in line for line in said), caplog.text
