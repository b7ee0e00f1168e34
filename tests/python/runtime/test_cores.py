# SPDX-License-Identifier: Apache-2.0
"""Cores that calls take turns to have, and that all come back."""

from __future__ import annotations

import dis
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from tvm_ios_runtime import cores as module
from tvm_ios_runtime.cores import Cores


class _Usage:
    """What work took of some cores, at most at a time."""

    def __init__(self, cores: Cores) -> None:
        self.cores, self.lock = cores, threading.Lock()
        self.now = self.most = 0

    def work(self, count: int) -> int:
        def take() -> int:
            with self.lock:
                self.now += min(count, 4)
                self.most = max(self.most, self.now)
            time.sleep(0.001)
            with self.lock:
                self.now -= min(count, 4)
            return count

        return self.cores.run(count, take)


def test_cores_are_acquired_once() -> None:
    usage, counts = _Usage(Cores(4)), [1, 2, 3, 4, 9] * 20
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(usage.work, counts)) == counts
    assert usage.most == 4
    assert usage.now == 0


def test_who_needs_many_cores_is_not_passed_over() -> None:
    cores, order = Cores(2), []

    def take_turns() -> list[threading.Thread]:
        threads = [
            threading.Thread(target=cores.run, args=(count, lambda name=name: order.append(name)))
            for name, count in (("all", 2), ("one", 1))
        ]
        for thread in threads:
            thread.start()
            time.sleep(0.05)  # the first has asked before the second
        assert order == []
        return threads

    for thread in cores.run(1, take_turns):
        thread.join()
    assert order == ["all", "one"]


def test_an_error_gives_cores_back() -> None:
    cores = Cores(2)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            cores.run(2, lambda: 1 // 0)
    assert cores.run(2, lambda: "free") == "free"


def test_an_interrupt_releases_what_was_waited_for() -> None:
    code = """
import signal, threading
from tvm_ios_runtime.cores import Cores
cores, main = Cores(2), threading.get_ident()
def wait():
    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()
    try:
        cores.run(2, lambda: print("not to be had"))
    except KeyboardInterrupt:
        pass
cores.run(1, wait)
cores.run(2, lambda: print("all are free"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "all are free\n", done.stderr


class _Interrupt:
    """An interrupt at one of the points of a module where the interpreter lets one in.

    These are the beginning of a function, the return from a call, and the jump to the next turn of
    a loop. None comes if this thread does not get to the point.

    Parameters
    ----------
    point : int
        The number of the point.
    """

    _BEFORE = ("RESUME", "CALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE")

    def __init__(self, point: int) -> None:
        self.left = point
        self.previous: dict[FrameType, str] = {}

    def __enter__(self) -> _Interrupt:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            previous = self.previous.get(frame, "RESUME")
            self.previous[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            self.left -= previous.startswith(self._BEFORE)
            if self.left < 0:
                raise KeyboardInterrupt
        return self._trace


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that the interpreter does not wait for: they might wait for ever."""
    made = ThreadPoolExecutor(2)
    yield made
    made.shutdown(wait=False)


def test_an_interrupt_at_any_point_loses_no_core(pool: ThreadPoolExecutor) -> None:
    """Neither one that this thread takes, nor one that another waits for meanwhile."""
    for point in itertools.count():
        cores, others = Cores(4), []

        def work(cores: Cores = cores, others: list[Future[str]] = others) -> None:
            asked = threading.Event()
            others.append(pool.submit(_ask, cores, asked))
            asked.wait()

        interrupted = True
        try:
            with _Interrupt(point):
                cores.run(3, work)
            interrupted = False
        except KeyboardInterrupt:
            pass
        for other in [*others, pool.submit(cores.run, 4, lambda: "free")]:
            assert other.result(60) == "free", f"an interrupt at point {point}"
        if not interrupted:
            break
    assert point > 20


def _ask(cores: Cores, asked: threading.Event) -> str:
    """Ask for all cores while another thread has some."""
    threading.Timer(0.002, asked.set).start()  # this thread waits by then, in most cases
    return cores.run(4, lambda: "free")


def test_an_interrupt_at_any_point_of_waiting(pool: ThreadPoolExecutor) -> None:
    """The cores are another thread's, which gives them back."""
    for point in itertools.count():
        cores, has, may_end = Cores(2), threading.Event(), threading.Event()

        def hold(has: threading.Event = has, may_end: threading.Event = may_end) -> str:
            has.set()
            may_end.wait()
            return "held"

        holder = pool.submit(cores.run, 2, hold)
        has.wait()
        threading.Timer(0.002, may_end.set).start()
        interrupted = True
        try:
            with _Interrupt(point):
                cores.run(2, lambda: "mine")
            interrupted = False
        except KeyboardInterrupt:
            pass
        assert holder.result(60) == "held"
        free = pool.submit(cores.run, 2, lambda: "free")
        assert free.result(60) == "free", f"an interrupt at point {point}"
        if not interrupted:
            break
    assert point > 20
