# SPDX-License-Identifier: Apache-2.0
"""What dividing single operators among workers by rows gains over dividing all by tiles.

Networks run without a search, one operator after another. Each operator is divided as the model of
cache-to-cache traffic prefers, or all of them by tiles. Both are timed as whole compiled models in
interleaved rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import command
import markdown
from tvm_ios.schedule import Schedule
from tvm_ios.schedule.speedup import Speedup
from two_ways import time_two_ways

MODELS = ("squeezenet", "resnet50", "densenet121", "mobilenet_v2", "xception", "convnext_tiny")


@dataclass(frozen=True)
class Result:
    """One network.

    Attributes
    ----------
    operators, by_rows : int
        All operators, and those that are divided by rows.
    tiles_ms, preferred_ms : float
        With all operators divided by tiles, and with each as the model prefers.
    speedup : Speedup or None
        The ratio of the two with its interval; None if the machine was too busy.
    """

    operators: int
    by_rows: int
    tiles_ms: float
    preferred_ms: float
    speedup: Speedup | None


def measure(model: str, threads: int | None) -> Result:
    """Time a network under both partitionings."""
    timed = time_two_ways(model, threads, by_tiles)
    stages = timed.usual.stages
    return Result(
        len(stages),
        sum(stage.partitioning == "strips" for stage in stages),
        timed.other_ms,
        timed.usual_ms,
        timed.speedup,
    )


def by_tiles(schedule: Schedule) -> Schedule:
    """Return the schedule with the work of every stage divided by tiles."""
    stages = tuple(
        replace(stage, partitioning="tiles") if stage.partitioning == "strips" else stage
        for stage in schedule.stages
    )
    return replace(schedule, stages=stages)


def show(results: dict[str, Result]) -> None:
    """Print a row for each network."""
    rows = [
        (
            model,
            f"{result.by_rows} of {result.operators}",
            f"{result.tiles_ms:.3f}",
            f"{result.preferred_ms:.3f}",
            str(result.speedup or "the machine was busy"),
        )
        for model, result in results.items()
    ]
    print(markdown.table(("network", "by rows", "tiles ms", "rows ms", "gain"), rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the networks that are named."""
    parser = command.parser(__doc__, [f"zoo:{name}" for name in MODELS], "results")
    args = parser.parse_args(arguments)
    results: dict[str, Result] = {}
    for model in args.models:
        results[model] = measure(model, args.threads)
        command.write(args.json, partitionings=results)
    show(results)


if __name__ == "__main__":
    main()
