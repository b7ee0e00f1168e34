# SPDX-License-Identifier: Apache-2.0
"""How good a search is, on a device whose latencies and best schedule are known.

``replay`` repeats the search with many seeds on simulated devices that are defined by tables of
latencies, with one kind of noise at a time; it measures nothing. ``carry`` shows how many stages
a search measures after those of the other tables' networks. ``record`` makes a table of a network
on this machine, which should be idle, or derives one from the operators alone if it is not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import markdown
from replay.carry_over import after_others
from replay.derived import derive
from replay.machine import MACHINES
from replay.networks import NETWORKS, prepare
from replay.record import record, record_operators
from replay.recorded import Recorded
from replay.search import Outcome, replay
from replay.table import Table
from tvm_ios.target import resolve

TABLES = Path(__file__).parent / "replay" / "tables"

Case = tuple[Path, str, int]
"""A table, a kind of noise and a seed."""


@dataclass(frozen=True)
class Quality:
    """How good searches of one table were under one kind of noise.

    Attributes
    ----------
    median_regret, p95_regret : float
        Of the found schedule's latency over the optimum, less one: the median of the seeds, and
        what 95% of them stay below.
    measured_share : float
        The mean share of the stages that were measured.
    coverage90 : float
        The mean share of the stages without a measurement that are slower than the model's 90%
        bound; NaN if there are none.
    median_error, p95_error : float
        Of the sum of the stages' prices against what the schedule takes, either way.
    seconds : float
        The mean time that a search takes on the simulated device.
    """

    median_regret: float
    p95_regret: float
    measured_share: float
    coverage90: float
    median_error: float
    p95_error: float
    seconds: float

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Quality:
        regrets = [outcome.regret for outcome in outcomes]
        errors = [abs(outcome.overestimate) for outcome in outcomes]
        covered = [o.coverage90 for o in outcomes if not np.isnan(o.coverage90)]
        return cls(
            float(np.median(regrets)),
            float(np.percentile(regrets, 95)),
            float(np.mean([outcome.measured_share for outcome in outcomes])),
            float(np.mean(covered)) if covered else float("nan"),
            float(np.median(errors)),
            float(np.percentile(errors, 95)),
            float(np.mean([outcome.seconds for outcome in outcomes])),
        )


@lru_cache(maxsize=4)
def _device(path: Path) -> Recorded:
    table = Table.load(path)
    return Recorded(prepare(path.stem, table.target), table)


def search(case: Case) -> Outcome:
    """Search once."""
    path, noise, seed = case
    return replay(_device(path), MACHINES[noise](seed), seed)


def judge(
    paths: Sequence[Path], noises: Sequence[str], seeds: int, processes: int = 1
) -> dict[str, dict[str, Quality]]:
    """Search each table under each kind of noise.

    Parameters
    ----------
    paths : sequence of Path
        The tables, each in a file of its network's name.
    noises : sequence of str
        Names of :data:`replay.machine.MACHINES`.
    seeds : int
        The number of searches of a table under a kind of noise.
    processes : int
        How many search at the same time.

    Returns
    -------
    dict
        By the table's and the noise's name.
    """
    cases = list(product(paths, noises, range(seeds)))
    found = dict(zip(cases, _searched(cases, processes), strict=True))
    return {
        path.stem: {n: Quality.of([found[path, n, s] for s in range(seeds)]) for n in noises}
        for path in paths
    }


def _searched(cases: Sequence[Case], processes: int) -> Iterable[Outcome]:
    if processes == 1:
        yield from map(search, cases)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(search, cases, chunksize=4)


def show(results: dict[str, dict[str, Quality]]) -> None:
    """Print a table of all of them."""
    header = ("table, noise", "median regret", "95%", "measured", "coverage90", "error", "device s")
    rows = [
        (
            f"{name}, {noise}",
            f"{q.median_regret:.2%}",
            f"{q.p95_regret:.2%}",
            f"{q.measured_share:.1%}",
            f"{q.coverage90:.1%}",
            f"{q.median_error:.1%}",
            f"{q.seconds:.1f}",
        )
        for name, kinds in results.items()
        for noise, q in kinds.items()
    ]
    print(markdown.table(header, rows))


def carry(paths: Sequence[Path], noise: str, seeds: int) -> dict[str, list[Quality]]:
    """Search each network after none, one, two ... of the others.

    Parameters
    ----------
    paths : sequence of Path
        The tables.
    noise : str
        A name of :data:`replay.machine.MACHINES`.
    seeds : int
        How often. The order of the others is rotated from seed to seed.

    Returns
    -------
    dict
        By the table's name and the number of networks before.
    """
    devices = {path.stem: _device(path) for path in paths}
    results = {}
    for name, device in devices.items():
        others = [other for key, other in devices.items() if key != name]
        orders = [[*others[s % len(others) :], *others[: s % len(others)]] for s in range(seeds)]
        runs = [after_others(device, o, MACHINES[noise], s) for s, o in enumerate(orders)]
        results[name] = [Quality.of(known) for known in zip(*runs, strict=True)]
    return results


def show_curves(results: dict[str, list[Quality]]) -> None:
    """Print by how much the measurements of other networks shorten a search."""
    header = ("table", "networks before", "measured", "ratio", "median regret", "coverage90")
    rows = [
        (
            name,
            str(known),
            f"{q.measured_share:.1%}",
            f"{q.measured_share / curve[0].measured_share:.2f}",
            f"{q.median_regret:.2%}",
            f"{q.coverage90:.1%}",
        )
        for name, curve in results.items()
        for known, q in enumerate(curve)
    ]
    print(markdown.table(header, rows))


def make(network: str, folder: Path, derived: bool, database: Path | None, passes: int) -> Path:
    """Record the table of a network, or derive it; return its file."""
    scheduler = prepare(network, resolve("llvm", threads=2))
    if derived:
        table = derive(scheduler, record_operators(scheduler, database))
    else:
        table = record(scheduler, database, passes)
    path = folder / f"{network}.npz"
    table.save(path)
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    replayed = commands.add_parser("replay", help="search on simulated devices")
    replayed.add_argument("--seeds", type=int, default=50)
    replayed.add_argument("--noise", choices=MACHINES, action="append", help="default: each kind")
    replayed.add_argument("--processes", type=int, default=1, help="that search at the same time")
    carried = commands.add_parser("carry", help="search after the networks of the other tables")
    carried.add_argument("--seeds", type=int, default=3)
    carried.add_argument("--noise", choices=MACHINES, default="none")
    for command in (replayed, carried):
        command.add_argument("tables", nargs="*", type=Path, help="default: those that are kept")
        command.add_argument("--json", action="store_true", help="print JSON")
    recorded = commands.add_parser("record", help="measure all stages of a network")
    recorded.add_argument("network", choices=NETWORKS)
    recorded.add_argument("folder", type=Path, help="where NETWORK.npz is written")
    recorded.add_argument(
        "--derived", action="store_true", help="measure the operators only; see replay/derived.py"
    )
    recorded.add_argument(
        "--database", type=Path, help="keep measurements here, to go on where this was interrupted"
    )
    recorded.add_argument("--passes", type=int, default=3, help="how often stages are measured")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Replay tables, or record one."""
    args = _parser().parse_args(arguments)
    if args.command == "record":
        path = make(args.network, args.folder, args.derived, args.database, args.passes)
        print(path, file=sys.stderr)
        return
    tables = args.tables or sorted(TABLES.glob("*.npz"))
    if args.command == "carry":
        curves = carry(tables, args.noise, args.seeds)
        if args.json:
            print(json.dumps({n: [asdict(q) for q in c] for n, c in curves.items()}, indent=1))
        else:
            show_curves(curves)
        return
    results = judge(tables, args.noise or list(MACHINES), args.seeds, args.processes)
    if args.json:
        kinds = {name: {n: asdict(q) for n, q in k.items()} for name, k in results.items()}
        print(json.dumps(kinds, indent=1))
    else:
        show(results)


if __name__ == "__main__":
    main()
