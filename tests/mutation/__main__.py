# SPDX-License-Identifier: Apache-2.0
"""Apply a random sample of mutmut's mutants, and say how many of them tests notice."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutmut.stats import status_by_exit_code

from tvm_ios_runtime.library import library_path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "mutation"
COPIED = ("tests", "benchmarks", "cmake", "src", "setup.cfg", "pyproject.toml")
NOTICED = ("killed", "timeout", "segfault")
LEAST = 0.8
"""The share of the mutants that tests have to notice."""


def copy() -> None:
    """Copy what mutmut needs, as it writes beside the sources."""
    shutil.rmtree(PLACE, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "python", PLACE, ignore=ignored)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, PLACE / name, ignore=ignored)
        else:
            shutil.copy(source, PLACE)


def mutmut(*arguments: str, quiet: bool = False) -> int:
    """Run mutmut on the copy."""
    command = [sys.executable, PLACE / "tests" / "mutation" / "tool.py", *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["TVM_IOS_LIBRARY_PATH"] = str(library_path().parent)
    log = (PLACE / "log.txt").open("a") if quiet else None
    return subprocess.run(
        command, cwd=PLACE, env=environment, check=False, stdout=log, stderr=log
    ).returncode


def statuses() -> dict[str, str]:
    """Return the status of each mutant, by its name."""
    found: dict[str, str] = {}
    for path in sorted((PLACE / "mutants").rglob("*.meta")):
        codes = json.loads(path.read_text())["exit_code_by_key"]
        found.update((name, status_by_exit_code[code]) for name, code in codes.items())
    return found


def main() -> int:
    """Return 1 if too few mutants are noticed."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="the number of mutants")
    parser.add_argument("--seed", type=int, default=1, help="decides which ones")
    arguments = parser.parse_args()
    copy()
    # No mutant has this name. mutmut makes all mutants and notes which tests reach them.
    mutmut("run", "none", quiet=True)
    names = sorted(statuses())
    if not names:
        print(f"mutmut made no mutants, see {PLACE / 'log.txt'}", file=sys.stderr)
        return 1
    chosen = random.Random(arguments.seed).sample(names, min(arguments.count, len(names)))
    mutmut("run", *chosen, "--max-children", str(os.cpu_count() or 1), quiet=True)
    found = statuses()
    counts = Counter(found[name] for name in chosen)
    for name in sorted(chosen):
        if found[name] not in NOTICED:
            print(f"{found[name]}: {name}")
    share = sum(counts[status] for status in NOTICED) / len(chosen)
    print(f"{len(chosen)} of {len(names)} mutants, {dict(counts)}: {share:.1%} noticed")
    print(f"To see one: cd {PLACE}; {sys.executable} tests/mutation/tool.py show NAME")
    return int(share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
