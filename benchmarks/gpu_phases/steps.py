# SPDX-License-Identifier: Apache-2.0
"""What there is to do on a lent machine, in the order of what it is worth to know."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tvm_ios_env.machine import usable_cores

CHECKOUT = Path(__file__).resolve().parents[2]

# The first two are searched on the GPU; the others are large.
NETWORKS = ("inception_v3", "squeezenet", "randwire_large", "nasnet_a_large")
_SEARCHED = 2

CHECKS, GPU, CPU, TESTS = KINDS = ("checks", "gpu", "cpu", "tests")
TOLERANCE = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 5e-2, "bf16": 2e-1}
"""The largest error of a whole network that is no failure, relative to its largest output."""

TOOLCHAIN, SELFTEST, PEAK = "toolchain", "selftest", "peak"

_WITHOUT_TORCH = (
    "import runpy, sys; from tvm_ios_env.torchless import hide_torch; hide_torch(); "
    "del sys.argv[0]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
_SHOW = "import sys; from tvm_ios_entry.command import main; sys.exit(main())"  # as tvm-ios does


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
        Its result is what it says, see :mod:`gpu_phases.messages`.
    most : float
        Seconds that it may take.
    least : float
        Seconds without which it is not worth beginning.
    on_gpu : bool
    needs : Path or None
        A file of an earlier step without which it is left out.
    background : bool
        Whether it ends with the others that run beside it.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    most: float
    least: float = 20.0
    on_gpu: bool = True
    needs: Path | None = None
    background: bool = False


@dataclass(frozen=True)
class Task:
    """Steps that run side by side.

    Attributes
    ----------
    steps : tuple of Step
    threads : int or None
        Of networks on the CPU, which are prepared side by side and timed one after another.
    """

    steps: tuple[Step, ...]
    threads: int | None = None


@dataclass(frozen=True)
class Request:
    """What the user wants to have measured.

    Attributes
    ----------
    state : Path
        Where steps keep files.
    networks : sequence of str
    device_id : int
    precision : str
    cudnn : bool
    kinds : sequence of str
    threads : sequence of int
        Of the runs on the CPU, the most valuable first.
    """

    state: Path
    networks: Sequence[str] = NETWORKS
    device_id: int = 0
    precision: str = "fp32"
    cudnn: bool = False
    kinds: Sequence[str] = KINDS
    threads: Sequence[int] = field(default_factory=lambda: thread_counts(len(usable_cores())))

    @property
    def suffix(self) -> str:
        """Of the names of steps that compute otherwise."""
        precision = "" if self.precision == "fp32" else f"-{self.precision}"
        return precision + ("-cudnn" if self.cudnn else "")

    @property
    def device(self) -> tuple[str, ...]:
        """The options of commands that use the GPU."""
        return "--device-id", str(self.device_id), *(("--cudnn",) if self.cudnn else ())

    @property
    def computed(self) -> tuple[str, ...]:
        """The options of commands that compute a network there."""
        return *self.device, "--precision", self.precision


def thread_counts(most: int) -> list[int]:
    """All cores, one, and the powers of two between, falling: in the order of their worth."""
    powers = [1 << i for i in range(1, most.bit_length()) if 1 << i < most]
    return list(dict.fromkeys([most, 1, *reversed(powers)]))


def plan(request: Request) -> list[Task]:
    """The tasks of the kinds that are asked for, in order."""
    chosen = [
        Task(tuple(s for s in task.steps if _is_asked_for(s, request)), task.threads)
        for task in _all(request)
    ]
    return [task for task in chosen if task.steps]


def _is_asked_for(step: Step, request: Request) -> bool:
    """Whether it is of a kind that is asked for; what runs on a GPU asks for the toolchain."""
    kinds = set(request.kinds)
    return bool(kinds - {CPU}) if step.name == TOOLCHAIN else step.kind in kinds


def _all(request: Request) -> Iterator[Task]:
    networks, threads = request.networks, request.threads
    tool = Step(
        TOOLCHAIN, CHECKS, _torchless("gpu_phases.toolchain", str(request.device_id)), 60, 10
    )
    yield Task((tool,))
    yield Task(tuple(_checks(request, networks[:_SEARCHED])))
    yield from (_on_gpu(request, name, 170, 60) for name in networks[:1])
    yield from (_on_cpu(request, [name], threads[0], 45) for name in networks)
    limits = (sys.executable, "peak.py", "--threads", str(threads[0]), "--json")
    yield Task((Step(PEAK, CPU, limits, 60, on_gpu=False),))
    yield from (_on_gpu(request, name, 90, 45) for name in networks[1:_SEARCHED])
    yield from (_on_cpu(request, networks, count, 30) for count in threads[1:])
    for network in networks[_SEARCHED:]:
        yield _on_gpu(request, network, 90, 40, searched=False)
        yield Task((_answers(request, network, 240, 40),))
    yield from (Task((step,)) for step in _rest(request))


def _checks(request: Request, networks: Sequence[str]) -> Iterator[Step]:
    """What is not timed."""
    yield Step(SELFTEST, CHECKS, _torchless("gpu_phases.selftest", *request.device), 130, 30)
    for network in networks:
        yield _answers(request, network, 130, 30)
        command = _python("gpu_phases.warm", network, *request.computed)
        name = f"warm-{network}{request.suffix}"
        yield Step(name, CHECKS, command, 130, 30, background=True)


def _answers(request: Request, network: str, most: float, least: float) -> Step:
    command = _python("gpu_phases.answers", network, *request.computed)
    return Step(f"answers-{network}{request.suffix}", CHECKS, command, most, least)


def _on_gpu(
    request: Request, network: str, most: float, least: float, *, searched: bool = True
) -> Task:
    name, state = f"gpu-{network}{request.suffix}", request.state
    command = _python("gpu_phases.on_gpu", network, *request.computed, "--name", name)
    command += ("--schedules", str(state / "schedules"))
    command += ("--database", str(state / "gpu.sqlite3")) if searched else ()
    return Task((Step(name, GPU, command, most, least),))


def _on_cpu(request: Request, networks: Sequence[str], threads: int, least: float) -> Task:
    """Networks on a number of threads; :mod:`gpu_phases.cells` has the limits of their requests."""
    steps = []
    for network in networks:
        name, state = f"cpu-{network}-{threads}", request.state
        command = _torchless("gpu_phases.on_cpu", network, str(threads))
        command += ("--schedule", str(state / "schedules" / f"{name}.json"))
        command += ("--database", str(state / f"{name}.sqlite3"))
        command += ("--timelines", str(state / "timelines"))
        steps.append(Step(name, CPU, command, 300, least, on_gpu=False))
    return Task(tuple(steps), threads)


def _rest(request: Request) -> Iterator[Step]:
    """What looks into the figures: timelines, tests, and NVIDIA's tools."""
    name = f"gpu-{request.networks[0]}{request.suffix}"
    schedule = request.state / "schedules" / f"{name}.json"
    show = (
        sys.executable, "-c", _SHOW, "show", str(schedule), "--format", "perfetto",
        "--model", f"zoo:{request.networks[0]}",
        "-o", str(request.state / "timelines" / f"{name}.json"), *request.computed,
    )  # fmt: skip
    yield Step(f"timeline-{name.removeprefix('gpu-')}", GPU, show, 90, 25, needs=schedule)
    files = sorted((CHECKOUT / "tests" / "gpu").glob("test_*.py"))
    yield from (_tests(request, path, 90, 25) for path in files if "sanitizer" not in path.stem)
    if shutil.which("ncu"):
        command = (
            "ncu", "--clock-control", "none", "--section", "SpeedOfLight", "--section", "Occupancy",
            "--launch-skip", "20", "--launch-count", "40", "--csv", "--page", "raw",
            "--log-file", str(request.state / "timelines" / "ncu.csv"),
            sys.executable, str(CHECKOUT / "tests" / "gpu" / "run_once.py"), "streams",
        )  # fmt: skip
        yield Step("ncu", TESTS, command, 60, 25)
    yield from (_tests(request, path, 150, 40) for path in files if "sanitizer" in path.stem)


def _tests(request: Request, path: Path, most: float, least: float) -> Step:
    name = f"tests-{path.stem.removeprefix('test_')}"
    outcomes = str(request.state / "tests" / f"{name}.jsonl")
    command = _python("gpu_phases.tests", str(path), "--outcomes", outcomes)
    return Step(name, TESTS, command, most, least)


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return sys.executable, "-m", module, *arguments


def _torchless(module: str, *arguments: str) -> tuple[str, ...]:
    """A module's command without PyTorch, which ``import tvm`` would import, seconds each time."""
    return sys.executable, "-c", _WITHOUT_TORCH, module, *arguments
