# SPDX-License-Identifier: Apache-2.0
"""The processes of a comparison, as the one that coordinates them sees them."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peer.contender import Contender
from peer.instructions import target

_BENCHMARKS = Path(__file__).parents[1]
_PATIENCE = {"ready": 3600.0, "window": 300.0}  # seconds
_ERROR = re.compile(r"(error|[\w.]+(Error|Exception|Interrupt)): ")
_SETTLED = 2.0  # seconds that threads may go on spinning after a run
_PAUSE = 0.05  # seconds between two contenders
_SENTENCE = 300  # characters
_OURS = "import sys; from tvm_ios_entry.command import main; sys.exit(main())"  # as tvm-ios does


class ContenderError(Exception):
    """A contender that could not take part, or go on; one sentence."""


@dataclass(frozen=True)
class Assignment:
    """What a worker is started with.

    Attributes
    ----------
    model, inputs, outputs : Path
        What to run, what on (.npz), where the outputs go (.npz).
    threads : int
    window : float
        Seconds that it runs for when it is its turn.
    """

    model: Path
    inputs: Path
    outputs: Path
    threads: int
    window: float


class Worker:
    """A contender in its own process, alive until :meth:`close`.

    Attributes
    ----------
    ready : dict
        What it reported after its first run, and ``process_s``, the seconds until then.

    Raises
    ------
    ContenderError
        When it cannot take part.
    """

    def __init__(self, contender: Contender, assignment: Assignment, log: Path) -> None:
        request = json.dumps({k: _plain(v) for k, v in vars(assignment).items()})
        environment = {"OMP_NUM_THREADS": str(assignment.threads)}
        begin = time.perf_counter()
        with log.open("w") as stderr:
            self._process = subprocess.Popen(
                _command(["peer.worker", contender.module, request], torch=contender.torch),
                cwd=_BENCHMARKS,
                env=_environment(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        try:
            self.ready = self._answer(_PATIENCE["ready"])
            self.ready["process_s"] = time.perf_counter() - begin
            self._settle()
        except BaseException:
            self.close()
            raise

    def window(self) -> dict[str, Any]:
        """Let it run for a while, and wait until its threads have come to rest."""
        assert self._process.stdin is not None
        try:
            print("run", file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise ContenderError(self._end()) from None
        answer = self._answer(_PATIENCE["window"])
        answer["rest_s"] = self._settle()
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self, patience: float) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        readable, _, _ = select.select([stdout], [], [], patience)
        if not readable:
            raise ContenderError(f"gave no answer within {patience:.0f} s")
        line = stdout.readline()
        if not line:
            raise ContenderError(self._end())
        answer = json.loads(line)
        if "error" in answer:
            raise ContenderError(answer["error"])
        return answer

    def _end(self) -> str:
        return f"its process ended with status {self._process.wait()}"

    def _settle(self) -> float:
        """Seconds until no thread of the process wants a core.

        Thread pools spin for a while after a run, and would disturb whoever is next.
        """
        begin = time.perf_counter()
        while time.perf_counter() - begin < _SETTLED:
            if not _running(self._process.pid):
                break
            time.sleep(1e-3)
        rest = time.perf_counter() - begin
        time.sleep(_PAUSE)
        return rest


def run_tool(
    arguments: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run ``tvm_ios``, as users start it, or a module without torch, and return what it prints.

    Raises
    ------
    ContenderError
        When it fails, with what it says.
    """
    return measure_tool(arguments, log, environment=environment)[0]


def measure_tool(
    arguments: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
) -> tuple[str, int]:
    """Do as :func:`run_tool`, and return also the most bytes that were ever resident.

    That is in one process, of the tool and of those that it has started.
    """
    with log.open("w") as stderr:
        process = subprocess.Popen(
            _tool(arguments),
            cwd=_BENCHMARKS,
            env=_environment(environment or {}),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    with process.stdout as stdout:
        printed = stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ContenderError(_reason(log.read_text()) or f"ended with status {process.returncode}")
    return printed, usage.ru_maxrss << 10


def _reason(said: str) -> str:
    """The sentence of the command line, or the exception of a traceback; "" for neither."""
    errors = [line for line in said.splitlines() if _ERROR.match(line)]
    return errors[-1].removeprefix("error: ").strip()[:_SENTENCE] if errors else ""


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return what a process sees, which may keep bytecode, as those of users do."""
    environment = {**os.environ, **more}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _tool(arguments: Sequence[str]) -> list[str]:
    if arguments[0] == "tvm_ios":
        for_target = ["--target", target()] if arguments[1] == "compile" else []
        return [sys.executable, "-c", _OURS, *arguments[1:], *for_target]
    return _command(arguments, torch=False)


def _command(arguments: Sequence[str], *, torch: bool) -> list[str]:
    launcher = [] if torch else ["peer.without_torch"]
    return [sys.executable, "-m", *launcher, *arguments]


def _running(pid: int) -> bool:
    """Whether a thread of the process is on a core or waits for one."""
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = path.read_text().rpartition(") ")[2][0]
        except OSError:  # the thread has ended
            continue
        if state == "R":
            return True
    return False


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
