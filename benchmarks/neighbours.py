# SPDX-License-Identifier: Apache-2.0
"""What models take from each other, and from other programs.

    python benchmarks/neighbours.py [--threads 2]

Each figure is a median of ratios, whose two sides were measured one after the other: the machine's
speed changes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console

import tvm_ios
import tvm_ios_runtime
from tvm_ios.target import available_cores

MODELS = ("squeezenet", "googlenet", "inception_v3")
ROUNDS, CALLS = 21, 10
PAUSE = 10e-3  # seconds between two calls: workers sleep meanwhile
TURN = 1.0  # seconds that a neighbour's work is counted

# Counts how much it computes in each of the turns that it is asked for, on one core each.
WORK = """
import sys, time
import numpy as np
x = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
for line in sys.stdin:
    done, end = 0, time.perf_counter() + float(line)
    while time.perf_counter() < end:
        for _ in range(20):
            x @ x
        done += 1
    print(done, flush=True)
"""

# Runs a model twice a second until its input ends.
GUEST = """
import select, sys
import numpy as np
import tvm_ios_runtime
model = tvm_ios_runtime.load(sys.argv[1])
image = [np.ones(value.shape, value.dtype) for value in model.inputs]
while not select.select([sys.stdin], [], [], 0.5)[0]:
    model(*image)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=available_cores())
    threads = parser.parse_args().threads
    with tempfile.TemporaryDirectory() as folder:
        paths = [_compile(name, threads, Path(folder)) for name in MODELS]
        console = Console()
        console.print(f"{threads} threads on {available_cores()} cores")
        console.print(f"three models in turn, to the sum of each alone: {in_turn(paths):.3f}")
        console.print(
            f"a call from each of four threads, to one after another: {at_once(paths):.3f}"
        )
        console.print(
            f"a call after a pause of {1e3 * PAUSE:.0f} ms, to one right after another: "
            f"{after_pauses(paths[0]):.3f}"
        )
        console.print(f"another program's speed beside two calls a second: {beside(paths[0]):.3f}")


def _compile(name: str, threads: int, folder: Path) -> Path:
    path = folder / f"{name}.so"
    tvm_ios.compile(f"zoo:{name}", threads=threads, search=False).save(path)
    return path


def _calls(paths: Sequence[Path]) -> list[Callable[[], object]]:
    models = [tvm_ios_runtime.load(path) for path in paths]
    images = [[np.ones(i.shape, i.dtype) for i in model.inputs] for model in models]
    return [lambda m=m, x=x: m(*x) for m, x in zip(models, images, strict=True)]


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_turn(paths: Sequence[Path]) -> float:
    """How much longer models take that are called in turn than each again and again."""
    calls = _calls(paths)

    def alone() -> None:
        for call in calls:
            for _ in range(CALLS):
                call()

    def turns() -> None:
        for _ in range(CALLS):
            for call in calls:
                call()

    alone()
    return median(_seconds(turns) / _seconds(alone) for _ in range(ROUNDS))


def at_once(paths: Sequence[Path]) -> float:
    """How much longer four threads' calls of one model take than as many of one thread."""
    (call,) = _calls(paths[:1])
    with ThreadPoolExecutor(4) as pool:

        def together() -> None:
            list(pool.map(lambda _: [call() for _ in range(CALLS)], range(4)))

        def one_after_another() -> None:
            for _ in range(4 * CALLS):
                call()

        together()
        one_after_another()
        ratios = [_seconds(together) / _seconds(one_after_another) for _ in range(ROUNDS)]
    return median(ratios)


def after_pauses(path: Path) -> float:
    """How much longer calls with pauses between them take than calls without."""
    (call,) = _calls([path])

    def paused() -> float:
        time.sleep(PAUSE)
        return _seconds(call)

    def at_once() -> float:
        call()  # wakes the workers
        return _seconds(call)

    pairs = [(paused(), at_once()) for _ in range(ROUNDS * CALLS)]
    return median(slow / quick for slow, quick in pairs)


def beside(path: Path) -> float:
    """The speed of a program that uses all cores beside a model that is called twice a second."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    programs = [_start(["-c", WORK], environment) for _ in range(available_cores())]
    try:
        _count(programs)
        ratios = []
        for _ in range(ROUNDS):
            before = _count(programs)
            guest = _start(["-c", GUEST, str(path)], dict(os.environ))
            time.sleep(2)  # it is loaded and has run
            during = _count(programs)
            guest.communicate("\n")
            after = _count(programs)
            ratios.append(2 * during / (before + after))
    finally:
        for program in programs:
            program.communicate()
    return median(ratios)


def _start(arguments: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)


def _count(programs: Sequence[subprocess.Popen[str]]) -> int:
    """What the programs do in one turn."""
    for program in programs:
        assert program.stdin is not None
        program.stdin.write(f"{TURN}\n")
        program.stdin.flush()
    return sum(int(program.stdout.readline()) for program in programs if program.stdout)


if __name__ == "__main__":
    main()
