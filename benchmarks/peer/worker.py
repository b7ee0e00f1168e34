# SPDX-License-Identifier: Apache-2.0
"""The process of one contender: it prepares, then runs for a while whenever it is told to.

It is started as ``python -m peer.worker MODULE TASK`` with the task as JSON. On standard output it
says one JSON object a line: first that it is ready or what failed, then one for each line that it
reads. It ends when standard input does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from peer.contender import Runner, Task

MIN_RUNS = 5


def main() -> None:
    """Serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator says when to end
    channel = _private_stdout()
    module, text = sys.argv[1:]
    request = json.loads(text)
    try:
        runner, report = _prepare(module, request)
    except Exception as error:  # whatever a package raises is its answer
        _say(channel, {"error": _sentence(error)})
        return
    _say(channel, report)
    for _line in sys.stdin:
        _say(channel, _window(runner, request["window"]))


def _prepare(module: str, request: dict[str, Any]) -> tuple[Runner, dict[str, Any]]:
    """Import the contender, let it compile, run once and save what it computed."""
    with np.load(request["inputs"]) as file:
        inputs = {name: file[name] for name in file.files}
    imported = importlib.import_module(module)
    start, begin = _memory("VmRSS"), time.perf_counter()
    runner = imported.prepare(Task(request["model"], inputs, request["threads"]))
    outputs = runner.arrays(runner.run())
    seconds = time.perf_counter() - begin
    np.savez(request["outputs"], *outputs)
    report = {"prepare_s": seconds, "start_bytes": start, "precision": runner.precision}
    return runner, report


def _window(runner: Runner, seconds: float) -> dict[str, Any]:
    """Run once to warm up, then for a while; the median and the fastest."""
    gc.collect()
    gc.disable()
    runner.run()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < MIN_RUNS or time.perf_counter() - begin < seconds:
        before = time.perf_counter()
        runner.run()
        times.append(time.perf_counter() - before)
    gc.enable()
    return {
        "median_s": statistics.median(times),
        "fastest_s": min(times),
        "runs": len(times),
        "flops": runner.flops,
        "peak_bytes": _memory("VmHWM"),
    }


def _memory(name: str) -> int:
    """A figure of this process, in bytes; VmHWM is the most that was ever resident."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"Linux reports {name}")


def _private_stdout() -> TextIO:
    """Standard output for us alone: what a package prints goes to standard error."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return channel


def _say(channel: TextIO, message: dict[str, Any]) -> None:
    print(json.dumps(message), file=channel, flush=True)


def _sentence(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed; pip install 'tvm-ios[bench]'"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


if __name__ == "__main__":
    main()
