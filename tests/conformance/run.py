# SPDX-License-Identifier: Apache-2.0
"""Tests in processes of their own, several at a time."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from support.answering_process import AnsweringProcess

from .outcome import CRASH, HANG, Outcome, Test

ENVIRONMENT = {
    "TVM_BIND_THREADS": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
}
_MOST_TESTS = 400  # compiled code stays in a process
_TIMEOUT = 300.0


def processes() -> int:
    """Return how many run at a time: one on each core."""
    return len(os.sched_getaffinity(0))


def run(tests: Sequence[Test], say: Callable[[int], None]) -> dict[Test, Outcome]:
    """Run tests on all cores.

    Parameters
    ----------
    tests : sequence of Test
    say : callable
        Takes how many are done.
    """
    waiting: queue.SimpleQueue[Test] = queue.SimpleQueue()
    for test in tests:
        waiting.put(test)
    outcomes: dict[Test, Outcome] = {}
    failures: list[BaseException] = []

    def work() -> None:
        try:
            _run_all(waiting, outcomes, say)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(processes())]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        _empty(waiting)  # each thread ends after its present test
        raise
    if failures:
        raise failures[0]
    return outcomes


def _empty(waiting: queue.SimpleQueue[Test]) -> None:
    while not waiting.empty():
        with contextlib.suppress(queue.Empty):
            waiting.get_nowait()


def _run_all(
    waiting: queue.SimpleQueue[Test], outcomes: dict[Test, Outcome], say: Callable[[int], None]
) -> None:
    process: AnsweringProcess | None = None
    try:
        while not waiting.empty():
            try:
                test = waiting.get_nowait()
            except queue.Empty:
                return
            if process is not None and process.requests >= _MOST_TESTS:
                process.close()
                process = None
            process = process or AnsweringProcess("conformance.worker", ENVIRONMENT)
            try:
                outcomes[test] = _outcome(process.ask(asdict(test), _TIMEOUT))
            except (TimeoutError, EOFError) as error:
                status = HANG if isinstance(error, TimeoutError) else CRASH
                outcomes[test] = Outcome(status, process.last_words())
                process.close()
                process = None
            say(len(outcomes))
    finally:
        if process is not None:
            process.close()


def _outcome(answer: Mapping[str, Any]) -> Outcome:
    samples = tuple(map(_outcome, answer["samples"]))
    return Outcome(answer["status"], answer["reason"], samples)
