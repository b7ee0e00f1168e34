# SPDX-License-Identifier: Apache-2.0
"""What there is to do on a lent machine, in the order of what is to be known first."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tvm_ios_env.machine import usable_cores

_PACKAGE = "gpu_phases"
CHECKOUT = Path(__file__).resolve().parents[2]

# What is known soonest comes first; what takes the longest to search comes last.
NETWORKS = ("squeezenet", "inception_v3", "googlenet", "randwire_large", "nasnet_a_large")

SELFTEST, ANSWERS, BASELINES, TESTS, SEARCH, CPU = KINDS = (
    "selftest", "answers", "baselines", "tests", "search", "cpu",
)  # fmt: skip

OUT = "{out}"
"""Stands for the folder of results in a command."""

TOLERANCE = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 5e-2, "bf16": 2e-1}
"""The largest error of a whole network that is no failure, relative to its largest output."""


@dataclass(frozen=True)
class Step:
    """A command whose result is kept.

    Attributes
    ----------
    name : str
        Unique, and the name of its files.
    kind : str
        One of :data:`KINDS`.
    command : tuple of str
        Prints its result as a JSON object, unless it has ``prints`` false.
    most : float
        Seconds that it may take.
    least : float
        Seconds without which it is not worth beginning.
    statuses : tuple of int
        Those with which there is a result.
    prints : bool
    tolerance : float or None
        What ``max_rel_error`` of the result may be.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    most: float
    least: float = 20.0
    statuses: tuple[int, ...] = (0,)
    prints: bool = True
    tolerance: float | None = None

    @property
    def on_gpu(self) -> bool:
        return self.kind != CPU

    @property
    def directory(self) -> Path:
        """Where its command runs: modules of this package are found beside the scripts."""
        ours = any(word.startswith(f"{_PACKAGE}.") for word in self.command)
        return CHECKOUT / "benchmarks" if ours else CHECKOUT


@dataclass(frozen=True)
class Request:
    """What the user wants to have measured.

    Attributes
    ----------
    networks : sequence of str
    device_id : int
    precision : str
    cudnn : bool
    kinds : sequence of str
    threads : sequence of int
        Of the runs on the CPU.
    """

    networks: Sequence[str] = NETWORKS
    device_id: int = 0
    precision: str = "fp32"
    cudnn: bool = False
    kinds: Sequence[str] = KINDS
    threads: Sequence[int] = field(default_factory=lambda: powers_of_two(len(usable_cores())))


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4, ... and ``most`` itself."""
    return [*(1 << i for i in range(most.bit_length()) if 1 << i < most), most]


def plan(request: Request) -> list[Step]:
    """The steps, in order."""
    return [step for step in _all(request) if step.kind in request.kinds]


def _all(request: Request) -> Iterator[Step]:
    device = ("--device-id", str(request.device_id))
    cudnn = ("--cudnn",) if request.cudnn else ()
    selftest = ("tvm_ios", "selftest", "--target", "cuda", "--json", *device, *cudnn)
    # Its status is 1 where a check has failed, which is a result.
    yield Step(SELFTEST, SELFTEST, _python(*selftest), 300, statuses=(0, 1))
    suffix = "" if request.precision == "fp32" else f"-{request.precision}"
    suffix += "-cudnn" if request.cudnn else ""
    computed = (*device, "--precision", request.precision, *cudnn)
    for network in request.networks:
        name = f"{ANSWERS}-{network}{suffix}"
        command = _python("gpu_phases.answers", network, *computed)
        yield Step(name, ANSWERS, command, 240)
    for network in request.networks:
        name = f"{BASELINES}-{network}{suffix}"
        command = _python("gpu_phases.baselines", network, *computed)
        yield Step(name, BASELINES, (*command, *_schedule(name)), 420, 60)
    for path in sorted((CHECKOUT / "tests" / "gpu").glob("test_*.py")):
        name = f"{TESTS}-{path.stem.removeprefix('test_')}"
        command = _python("gpu_phases.tests", str(path), "--outcomes", f"{OUT}/tests/{name}.jsonl")
        yield Step(name, TESTS, command, 300)
    for network in request.networks:
        name = f"{SEARCH}-{network}{suffix}"
        command = _python("tvm_ios", "bench", f"zoo:{network}", "--target", "cuda", "--json")
        database = ("--database", f"{OUT}/database.sqlite3")
        yield Step(
            name,
            SEARCH,
            (*command, *computed, *database, *_schedule(name)),
            540,
            60,
            tolerance=TOLERANCE[request.precision],
        )
        timeline = _python(
            "tvm_ios", "show", f"{OUT}/schedules/{name}.json", "--format", "perfetto",
            "--model", f"zoo:{network}", "-o", f"{OUT}/timelines/{name}.json", *computed,
        )  # fmt: skip
        yield Step(f"timeline-{network}{suffix}", SEARCH, timeline, 120, prints=False)
    for network in request.networks:
        for threads in request.threads:
            name = f"{CPU}-{network}-{threads}"
            command = _python("gpu_phases.cpu", network, "--threads", str(threads))
            yield Step(name, CPU, (*command, "--json", f"{OUT}/peers/{name}.json"), 540, 60)


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *arguments)


def _schedule(name: str) -> tuple[str, str]:
    return "--schedule-out", f"{OUT}/schedules/{name}.json"
