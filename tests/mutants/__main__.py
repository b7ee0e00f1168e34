# SPDX-License-Identifier: Apache-2.0
"""Apply each mutant to a copy of the package, and see that tests notice it."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from multiprocessing.context import ForkServerContext

from .known import MUTANTS
from .mutant import Mutant
from .trial import Outcome, Trial, installed_library, run

_IMPORTED = ["tvm", "numpy", "pytest", "xgboost", "networkx", "scipy.stats", "hypothesis"]
"""What every trial imports, and no mutant changes."""
_AGAIN = 2


def _verdict(mutant: Mutant | None, outcome: Outcome) -> str:
    """Return what is wrong with the list or the tests; nothing if all is well."""
    if outcome.problem:
        return outcome.problem
    if mutant is None:
        return f"fails without any mutant: {', '.join(outcome.failed)}" if outcome.failed else ""
    alive = [test for test in mutant.tests if test not in outcome.failed]
    return f"survives {', '.join(alive)}" if alive else ""


def _tried(trial: Trial, context: ForkServerContext) -> Outcome:
    """Run a trial, again if a mutant survives: tests that draw their examples may miss one."""
    outcome = run(trial, context)
    for _ in range(_AGAIN):
        if trial.mutant is None or not _verdict(trial.mutant, outcome):
            break
        outcome = run(trial, context)
    return outcome


def _trials(chosen: Sequence[Mutant]) -> list[Trial]:
    """Return the tests of all mutants, file by file and without any mutant, then the mutants."""
    library = installed_library()
    tests = sorted({test for mutant in chosen for test in mutant.tests})
    files = [list(own) for _, own in groupby(tests, lambda test: test.partition("::")[0])]
    sound = [Trial(None, tuple(own), library) for own in files]
    return [*sound, *(Trial(mutant, mutant.tests, library) for mutant in chosen)]


def _part(text: str) -> slice:
    """Return which of the mutants are in part K of N; the parts are about equally long."""
    number, _, parts = text.partition("/")
    return slice(int(number) - 1, None, int(parts))


def main() -> int:
    """Try all mutants, or those whose name contains what is given."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="a part of the names of some mutants")
    parser.add_argument("--jobs", type=int, default=2, help="processes, by default 2")
    parser.add_argument(
        "--part", type=_part, default=slice(None), metavar="K/N", help="every Nth from the Kth on"
    )
    arguments = parser.parse_args()
    begin, wrong = time.monotonic(), 0
    chosen = [mutant for mutant in MUTANTS if arguments.name in mutant.name][arguments.part]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    trials = _trials(chosen)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = pool.map(lambda trial: _tried(trial, context), trials)
        for trial, outcome in zip(trials, outcomes, strict=True):
            verdict = _verdict(trial.mutant, outcome)
            wrong += bool(verdict)
            name = trial.mutant.name if trial.mutant else trial.tests[0].partition("::")[0]
            print(f"{'WRONG' if verdict else 'ok   '} {name}", *filter(None, [verdict]), flush=True)
    seconds = time.monotonic() - begin
    print(f"{len(chosen)} mutants in {seconds:.0f} s, {wrong} findings")
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
