# SPDX-License-Identifier: Apache-2.0
"""How much faster networks run on more workers: sequential, greedy and scheduled, beside a peer.

All but ``barriers`` are pipelined: a worker goes on as soon as other workers have computed what it
reads. With ``barriers``, the workers of the sequential schedule meet after every operator.

The networks are compiled and timed for 1, 2, 4 and so on up to all cores, each number by itself, in
the rounds of ``peers.py``.

With ``--simulate N`` they are simulated on up to N workers, whatever this machine has; see
:mod:`simulation`. Where it has the cores, what was simulated stands beside what was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import command
import markdown
from peer.contender import BARRIERS, OURS
from peer.contest import Contest, Plan
from peer.libraries import Search
from peer.models import load
from peer.record import Entry, Result
from simulation import forecast
from simulation.machine import this_machine
from tvm_ios.target import available_cores

MODELS = ("squeezenet", "inception_v3", "randwire_large", "nasnet_a_large")
_WINDOW = 0.25  # seconds of a turn


def worker_counts(most: int) -> list[int]:
    """Return the powers of two up to ``most``, and ``most`` itself."""
    powers = [1 << i for i in range(most.bit_length())]
    return [*(n for n in powers if n < most), most]


def measure(model: str, workers: int, args: argparse.Namespace) -> Result:
    """Time a network on so many workers."""
    search = Search(workers, **command.limits(args))
    plan = Plan((BARRIERS, *OURS, args.peer), search, args.rounds, _WINDOW, lambda _: None)
    with tempfile.TemporaryDirectory() as directory:
        return Contest(load(model, 1, Path(directory)), plan, Path(directory)).run()


def show(results: dict[str, dict[int, Result]], peer: str) -> None:
    """Print a row for each network and number of workers: milliseconds, and the ratio to one."""
    names = (BARRIERS, *OURS, peer)
    rows = [
        (model, str(workers), *(_cell(by_workers, workers, name) for name in names))
        for model, by_workers in results.items()
        for workers in by_workers
    ]
    print(markdown.table(("network", "workers", *names), rows))


def _cell(by_workers: dict[int, Result], workers: int, name: str) -> str:
    alone, now = (by_workers[n].entries.get(name, Entry()).median_ms for n in (1, workers))
    if alone is None or now is None:
        return "failed"
    return f"{now:.3f} ({alone / now:.2f}x)"


def simulate(args: argparse.Namespace) -> None:
    """Simulate the networks, and print where their time goes."""
    machine = this_machine()
    if args.machine is not None:
        machine = replace(machine, **json.loads(args.machine.read_text()))
    elsewhere = None
    if args.operators is not None:
        operators = json.loads(args.operators.read_text())["operators"]
        elsewhere = {op["name"]: op["seconds"] for op in operators}
    found: dict[str, dict[int, forecast.Forecast]] = {}
    for model in args.models:
        found[model] = {}
        for workers in worker_counts(args.simulate):
            print(f"{model} on {workers}", file=sys.stderr)
            found[model][workers] = forecast.forecast(
                model, workers, machine, here=args.machine is None, elsewhere=elsewhere
            )
            command.write(args.json, machine=asdict(machine), simulated=found)
    print(forecast.table(found))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the networks that are named."""
    parser = command.parser(__doc__, MODELS, "results")
    parser.add_argument("--peer", default="onnxruntime", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=9, metavar="R")
    parser.add_argument(
        "--simulate", type=int, metavar="N", help="simulate 1, 2, 4 and so on up to N workers"
    )
    parser.add_argument(
        "--machine",
        type=Path,
        metavar="FILE",
        help="JSON of what another machine's cores share, as in the file of --simulate --json",
    )
    parser.add_argument(
        "--operators",
        type=Path,
        metavar="FILE",
        help="a schedule of the network that was searched there, which has the operators' seconds",
    )
    command.add_limits(parser)
    args = parser.parse_args(arguments)
    if args.simulate:
        simulate(args)
        return
    results: dict[str, dict[int, Result]] = {}
    for model in args.models:
        results[model] = {}
        for workers in worker_counts(args.threads or available_cores()):
            print(f"{model} on {workers}", file=sys.stderr)
            results[model][workers] = measure(model, workers, args)
            command.write(args.json, scaling=results)
    show(results, args.peer)


if __name__ == "__main__":
    main()
