# SPDX-License-Identifier: Apache-2.0
"""The command line: ``run``, ``replay`` and ``shrink``."""

from __future__ import annotations

import argparse
import os
import secrets
import sys

from .outcome import Reduction
from .worker import ENVIRONMENT

os.environ.update(ENVIRONMENT)  # before TVM is loaded


def main() -> int:
    """Run what the arguments say; 1 where something is found."""
    arguments = _parser().parse_args()
    command = {"run": _run, "replay": _replay, "shrink": _shrink}[arguments.command]
    return command(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run trials of one seed after the other")
    run.add_argument("--minutes", type=float, default=10.0)
    run.add_argument("--seed", type=int, help="the first; by default a random one")
    run.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    run.add_argument("--networks", type=int, help="end after so many")
    run.add_argument("--open", action="store_true", help="leave dimensions open of all that can")
    replay = commands.add_parser("replay", help="run the trial of a seed, and print all of it")
    replay.add_argument("seed", type=int)
    replay.add_argument("--outputs", default="", help="only these, separated by commas")
    replay.add_argument("--cut", default="", help="values that become inputs")
    shrink = commands.add_parser("shrink", help="make a failing network smaller")
    shrink.add_argument("seed", type=int)
    shrink.add_argument("--timeout", type=float, default=60.0)
    for command in (replay, shrink):
        command.add_argument("--set", action="append", default=[], metavar="CHOICE=VALUE")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from .campaign import Campaign, summary
    from .operators import names

    first = arguments.seed if arguments.seed is not None else secrets.randbelow(10**9) * 1000
    print(f"seeds from {first} on, {arguments.jobs} processes", flush=True)
    reduction = Reduction(chosen={"open": "True"} if arguments.open else {})
    campaign = Campaign(
        first, 60 * arguments.minutes, arguments.jobs, arguments.networks, reduction
    )
    tally = campaign.run()
    print(campaign.progress, summary(tally, names()), sep="\n")
    return 1 if tally.findings else 0


def _replay(arguments: argparse.Namespace) -> int:
    from tvm_ios.support.threads import set_num_threads

    from .choices import MOST_WORKERS
    from .trial import Trial

    set_num_threads(MOST_WORKERS)
    outputs, cut = (tuple(filter(None, t.split(","))) for t in (arguments.outputs, arguments.cut))
    trial = Trial(arguments.seed, Reduction(outputs, cut, _chosen(arguments)))
    print(trial.open or trial.network, trial.choices, sep="\n", flush=True)
    outcome = trial.run()
    print(trial.schedule, f"{outcome.status} {outcome.detail}", sep="\n")
    return int(outcome.found)


def _chosen(arguments: argparse.Namespace) -> dict[str, str]:
    return dict(item.split("=", 1) for item in arguments.set)


def _shrink(arguments: argparse.Namespace) -> int:
    from .campaign import COMMAND
    from .processes import Process
    from .shrink import shrink
    from .trial import Trial

    process = Process(arguments.timeout)
    try:
        begin = Reduction(chosen=_chosen(arguments))
        reduction, outcome = shrink(arguments.seed, process, begin=begin)
    except ValueError as error:
        print(error)
        return 0
    finally:
        process.close()
    print(Trial(arguments.seed, reduction).network, outcome.choices, sep="\n")
    print(f"{outcome.status} {outcome.detail}")
    print(f"to see it again: {COMMAND} replay {arguments.seed}{reduction.arguments}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
