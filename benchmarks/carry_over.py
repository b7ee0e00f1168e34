# SPDX-License-Identifier: Apache-2.0
"""How much of a search other networks save: stages measured with and without their measurements.

Each network is searched with an empty database, and with one that has what the searches of the
networks before it have measured. Both schedules are then timed as whole models, in turn, so that
fewer measurements are not bought with a slower network.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import command
import markdown
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.measure.learned import LearnedCost
from tvm_ios.measure.timing.rounds import median_seconds
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.target import resolve

MODELS = ("squeezenet", "resnet50", "googlenet", "densenet121", "inception_v3")


@dataclass(frozen=True)
class Search:
    """One search.

    Attributes
    ----------
    seconds : float
    measurements : int
        Distinct stages that were measured, single operators included.
    above, held_back : int
        Of so many stages whose 90% bound was stated before they were measured, so many lay above.
    latency_ms : float
        Of the whole model.
    """

    seconds: float
    measurements: int
    above: int
    held_back: int
    latency_ms: float = math.nan


def search(scheduler: Scheduler) -> tuple[Schedule, Search]:
    """Search, and return what it took."""
    found = scheduler.search()
    assert isinstance(scheduler.cost, LearnedCost)
    held = scheduler.cost.held_back
    return found, Search(found.search_seconds, found.measurements, held.above, held.count)


def compare(
    model: str, database: Path, threads: int | None, limits: Mapping[str, int]
) -> dict[str, Search]:
    """Search a network with an empty database, and with ``database``, to which that adds."""
    mod, target = load_model(model), resolve("llvm", threads=threads)
    schedules, searches = {}, {}
    for name, path in (("alone", None), ("after the others", database)):
        options = Options(**limits, database=path)
        scheduler = Scheduler.prepare(mod, target, options=options)
        schedules[name], searches[name] = search(scheduler)
    timed = scheduler.compile(schedules).time(median_seconds)
    return {
        name: Search(**{**asdict(found), "latency_ms": 1e3 * timed[name]})
        for name, found in searches.items()
    }


def show(results: dict[str, dict[str, Search]]) -> None:
    """Print a row for each network, in the order of the searches."""
    rows = []
    for known, (model, found) in enumerate(results.items()):
        alone, after = found.values()
        rows.append(
            (
                str(known),
                model,
                str(alone.measurements),
                str(after.measurements),
                f"{after.measurements / max(alone.measurements, 1):.2f}",
                f"{alone.latency_ms:.3f}",
                f"{after.latency_ms:.3f}",
                *(f"{s.above}/{s.held_back}" for s in (alone, after)),
            )
        )
    header = (
        *("networks before", "network", "measured alone", "after them", "ratio"),
        *("ms alone", "ms", "above 90% bounds, alone", "after them"),
    )
    print(markdown.table(header, rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Search the networks that are named, one after another."""
    networks = [f"zoo:{name}" for name in MODELS]
    parser = command.parser(__doc__, networks, "searches")
    command.add_limits(parser)
    args = parser.parse_args(arguments)
    results: dict[str, dict[str, Search]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for model in args.models:
            database = Path(directory) / "m.sqlite3"
            results[model] = compare(model, database, args.threads, command.limits(args))
            command.write(args.json, searches=results)
    show(results)


if __name__ == "__main__":
    main()
