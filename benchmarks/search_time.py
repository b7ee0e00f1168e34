# SPDX-License-Identifier: Apache-2.0
"""How long a search takes, measuring included: with an empty database, and with that of the first.

Each search has a process of its own, as a user's has. Its time runs from the network being read to
the schedule being found; whole models are not compiled.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import command
import markdown
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.options import Options
from tvm_ios.target import resolve

MODELS = ("squeezenet", "inception_v3", "nasnet_a_large", "randwire_large")
IOS_SECONDS = {"squeezenet": 1, "inception_v3": 48, "nasnet_a_large": 3653, "randwire_large": 4407}
IOPS_SECONDS = {"squeezenet": 5, "inception_v3": 2, "nasnet_a_large": 2, "randwire_large": 432}


@dataclass(frozen=True)
class Search:
    """One search.

    Attributes
    ----------
    seconds : float
    measurements : int
        Distinct stages that were measured.
    stages : int
        Of the schedule that was found.
    """

    seconds: float
    measurements: int
    stages: int


def search(model: str, options: Options, threads: int | None) -> Search:
    """Search in this process."""
    mod, target = load_model(model), resolve("llvm", threads=threads)
    begin = time.perf_counter()
    found = Scheduler.prepare(mod, target, options=options).search()
    return Search(time.perf_counter() - begin, found.measurements, len(found.stages))


def compare(model: str, limits: Mapping[str, int], threads: int | None) -> dict[str, Search]:
    """Search twice, in two processes that share a database."""
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        shared = Options(**limits, database=Path(directory) / "m.sqlite3")
        results = {}
        for name in ("cold", "warm"):
            with processes.Pool(1) as pool:
                results[name] = pool.apply(search, (model, shared, threads))
    return results


def show(results: dict[str, dict[str, Search]]) -> None:
    """Print a table, with the papers' times."""
    rows = []
    for model, found in results.items():
        name = model.removeprefix("zoo:")
        papers = [str(times.get(name, "-")) for times in (IOS_SECONDS, IOPS_SECONDS)]
        cold, warm = found["cold"], found["warm"]
        rows.append(
            (
                model,
                f"{cold.seconds:.1f}",
                str(cold.measurements),
                f"{warm.seconds:.1f}",
                str(warm.measurements),
                *papers,
            )
        )
    header = ("network", "cold s", "measured", "warm s", "measured", "IOS s", "IOPS s")
    print(markdown.table(header, rows))
    print("\nIOS on a V100 and IOPS on an RTX 2080 Ti, as their papers say (IOPS: Table 3).")


def main(arguments: Sequence[str] | None = None) -> None:
    """Search the networks that are named."""
    networks = [f"zoo:{name}" for name in MODELS]
    parser = command.parser(__doc__, networks, "times")
    command.add_limits(parser)
    args = parser.parse_args(arguments)
    limits = command.limits(args)
    results = {}
    for model in args.models:
        results[model] = compare(model, limits, args.threads)
        command.write(args.json, **limits, searches=results)
    show(results)


if __name__ == "__main__":
    main()
