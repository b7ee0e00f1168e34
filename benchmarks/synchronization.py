# SPDX-License-Identifier: Apache-2.0
"""What it gains that workers wait for those that compute what they read, instead of at barriers.

Networks run without a search, one operator after another, on 2, 4 and so on up to all cores. Both
ways are timed as whole compiled models in interleaved rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import command
import markdown
from scaling import worker_counts
from tvm_ios.schedule.speedup import Speedup
from tvm_ios.target import available_cores
from two_ways import time_two_ways

MODELS = ("squeezenet", "resnet50", "inception_v3", "mobilenet_v2", "densenet121")


@dataclass(frozen=True)
class Result:
    """One network on one number of workers.

    Attributes
    ----------
    barrier_ms, point_to_point_ms : float
    speedup : Speedup or None
        The ratio of the two with its interval; None if the machine was too busy.
    """

    barrier_ms: float
    point_to_point_ms: float
    speedup: Speedup | None


def measure(model: str, workers: int) -> Result:
    """Time a network under both synchronizations."""
    timed = time_two_ways(model, workers, lambda usual: replace(usual, synchronization="barrier"))
    return Result(timed.other_ms, timed.usual_ms, timed.speedup)


def show(results: dict[str, dict[int, Result]]) -> None:
    """Print a row for each network and number of workers."""
    rows = [
        (
            model,
            str(workers),
            f"{result.barrier_ms:.3f}",
            f"{result.point_to_point_ms:.3f}",
            str(result.speedup or "the machine was busy"),
        )
        for model, by_workers in results.items()
        for workers, result in by_workers.items()
    ]
    print(markdown.table(("network", "workers", "barrier ms", "point-to-point ms", "gain"), rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the networks that are named."""
    parser = command.parser(__doc__, [f"zoo:{name}" for name in MODELS], "results")
    args = parser.parse_args(arguments)
    results: dict[str, dict[int, Result]] = {}
    for model in args.models:
        results[model] = {}
        for workers in worker_counts(args.threads or available_cores()):
            if workers > 1:
                results[model][workers] = measure(model, workers)
                command.write(args.json, synchronization=results)
    show(results)


if __name__ == "__main__":
    main()
