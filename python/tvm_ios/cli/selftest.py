# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios selftest``: whether what is emitted for this machine computes the right numbers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tvm_ios_env import report

from .. import selftest
from ..selftest import FAILED, LEFT_OUT, NOT_RUN, OK, Outcome, Settings
from . import output
from .options import add_common, add_machine

_FAILURE = 1  # status, where a check has failed
_MARKS = {OK: "ok", FAILED: "FAILED", LEFT_OUT: "-", NOT_RUN: "-"}

_EPILOG = """\
The command compares all results with double precision on the CPU. Each group of checks runs in a
process of its own, so that a crash, a hang or a GPU fault ends one line, not the rest.

The exit status is 0 if no check has failed, else 1.

examples:
  tvm-ios selftest
  tvm-ios selftest --target cuda
  tvm-ios selftest --target cuda --device-id 1 --cudnn --json
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "selftest",
        help="check that compiled networks compute the right numbers on this machine",
        description="Check what a compiled network depends on, cheap checks first: the device, one "
        "kernel, each kind of kernel at odd sizes, each kind of stage, and a small network. This "
        "takes less than a minute.",
        epilog=_EPILOG,
    )
    add_machine(parser)
    parser.add_argument("--cudnn", action="store_true", help="also check cuDNN's kernels")
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run all checks, tell of each as it ends, and return the exit status."""
    settings = Settings(args.target, args.device_id, args.threads, args.cudnn)
    outcomes = selftest.run(settings)
    if args.json:
        known = list(outcomes)
        output.print_json(_result(settings, known))
    else:
        known = list(_printed(outcomes, args.verbose))
    return _FAILURE if any(o.status == FAILED for o in known) else 0


def _printed(outcomes: Iterable[Outcome], verbose: bool) -> Iterable[Outcome]:
    """Yield the outcomes, and print each as a line at once."""
    group, counts = "", dict.fromkeys(_MARKS, 0)
    for outcome in outcomes:
        counts[outcome.status] += 1
        yield outcome
        if outcome.status == NOT_RUN:
            continue
        if outcome.group != group:
            group = outcome.group
            print(group)
        mark = _MARKS[outcome.status]
        print(f"  {mark:7}{outcome.name:34}{outcome.detail} ({outcome.seconds:.1f} s)", flush=True)
        if verbose and outcome.log:
            print(outcome.log, flush=True)
    print(", ".join(f"{count} {status}" for status, count in counts.items()))


def _result(settings: Settings, outcomes: list[Outcome]) -> dict[str, Any]:
    return {
        **asdict(settings),
        "ok": all(o.status != FAILED for o in outcomes),
        "checks": [asdict(o) for o in outcomes],
        "environment": report.collect(),
    }
