# SPDX-License-Identifier: Apache-2.0
"""A trial: tests that run on a changed copy of the package, in a process of their own."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from .library import build_library
from .mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 90.0  # seconds of one trial
_TOLD = 2000  # characters of what went wrong


@dataclass(frozen=True)
class Trial:
    """What to try.

    Attributes
    ----------
    mutant : Mutant or None
        What to change in a copy of the package.
    tests : tuple of str
        The tests, below ``tests/python``.
    library : Path
        The directory of the C++ library.
    """

    mutant: Mutant | None
    tests: tuple[str, ...]
    library: Path


@dataclass
class Outcome:
    """What the tests of a trial did.

    Attributes
    ----------
    failed : list of str
        The tests that failed, by their names in the list of mutants.
    problem : str
        Why the trial says nothing; empty if it does.
    """

    failed: list[str] = field(default_factory=list)
    problem: str = ""


@dataclass
class _Failures:
    """A plugin of pytest that notes the tests that fail."""

    found: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.found.append(report.nodeid)


def run(trial: Trial, context: ForkServerContext) -> Outcome:
    """Run the tests of a trial in a process of their own, which imports the copy."""
    with tempfile.TemporaryDirectory() as copy:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_answer, args=(trial, Path(copy), sender))
        process.start()
        sender.close()
        try:
            if receiver.poll(LIMIT):
                outcome: Outcome = receiver.recv()
                return outcome
            return Outcome(list(trial.tests))  # the mutant may run for ever
        except EOFError:
            return Outcome(problem="the process crashed")
        finally:
            process.kill()
            process.join()


def _answer(trial: Trial, copy: Path, sender: Connection) -> None:
    os.chdir(ROOT)
    with tempfile.TemporaryFile() as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
        outcome = _try(trial, copy)
        if outcome.problem or (trial.mutant is None and outcome.failed):
            sys.stdout.flush()
            said.seek(0)
            outcome.problem += said.read().decode(errors="replace")[-_TOLD:]
    sender.send(outcome)


def _try(trial: Trial, copy: Path) -> Outcome:
    mutant, library = trial.mutant, trial.library
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "python", copy / "python", ignore=ignored)
    try:
        if mutant is not None and mutant.file.startswith("src/"):
            shutil.copytree(ROOT / "src", copy / "src")
            mutant.apply(copy)
            library = build_library(copy, mutant.file, ROOT / "build" / "library")
        elif mutant is not None:
            mutant.apply(copy)
        _shadow(copy / "python", library)
        return _run(trial.tests)
    except (ValueError, ImportError, OSError, subprocess.SubprocessError) as error:
        return Outcome(problem=str(error))


def installed_library() -> Path:
    """Return the directory of the C++ library that is installed."""
    from tvm_ios_runtime.library import library_path  # which trials import from their copies

    return library_path().parent


def _shadow(packages: Path, library: Path) -> None:
    """Import the package from here, and not from where it is installed."""
    os.environ["TVM_IOS_LIBRARY_PATH"] = str(library)
    sys.dont_write_bytecode = True
    # An editable package has a finder of its own, which would be asked first.
    sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
    sys.path.insert(0, str(packages))
    package = importlib.import_module("tvm_ios")
    if not Path(str(package.__file__)).is_relative_to(packages):
        raise ImportError(f"tvm_ios was imported from {package.__file__}")


def _run(tests: Sequence[str]) -> Outcome:
    failures = _Failures()
    arguments = ["-q", "-p", "no:cacheprovider", *(f"tests/python/{test}" for test in tests)]
    status = pytest.main(arguments, plugins=[failures])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return Outcome(problem=f"pytest ended with {status!r}: ")
    names = {node.removeprefix("tests/python/").partition("[")[0] for node in failures.found}
    return Outcome(sorted(names))
