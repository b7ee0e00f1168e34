# SPDX-License-Identifier: Apache-2.0
"""What a search costs and what it finds: measurements against the latency of the network.

Each point is a search from nothing: with the learned cost model and several coverages of its
bounds, and measuring every stage within IOS's pruning limits (r, s). The schedules found, the
greedy and the sequential one are then timed as whole models, interleaved, so that their ratios are
of one run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import command
import markdown
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.measure.timing.rounds import median_seconds
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.target import resolve

COVERAGES = (0.5, 0.6, 0.7, 0.8, 0.9)
LIMITS = ((1, 3), (1, 8), (2, 3), (2, 8), (3, 3), (3, 8))
ROUNDS = 12  # times that the schedules are timed against each other


@dataclass
class Point:
    """A schedule, and what finding it took.

    Attributes
    ----------
    name, kind : str
        ``kind`` is ``learned``, ``measured`` or ``baseline``.
    measurements : int
        Distinct stages that were measured.
    search_s : float
        Seconds, measuring and the compilation of what is measured included.
    estimate_ms, latency_ms : float
        By the sum of its stages, and of the whole model: the median of interleaved rounds.
    ratio : float
        The median, over the rounds, of the latency over the sequential schedule's in that round.
    """

    name: str
    kind: str
    measurements: int
    search_s: float
    estimate_ms: float
    latency_ms: float = 0.0
    ratio: float = 1.0


class Comparison:
    """Searches of one network, and the whole models that they lead to."""

    def __init__(self, model: str, threads: int | None) -> None:
        self._mod = load_model(model)
        self._target = resolve("llvm", threads=threads)
        self._schedules: dict[str, Schedule] = {}
        self.points: list[Point] = []

    def search(self, name: str, kind: str, options: Options) -> Scheduler:
        """Search from nothing and keep what was found."""
        begin = time.perf_counter()
        scheduler = Scheduler.prepare(self._mod, self._target, options=options)
        found = scheduler.search()
        self._add(name, kind, found, time.perf_counter() - begin)
        print(f"{name}: {found.measurements} stages measured", file=sys.stderr)
        return scheduler

    def baselines(self, scheduler: Scheduler) -> None:
        for name, schedule in (
            ("sequential", scheduler.sequential()),
            ("greedy", scheduler.greedy()),
        ):
            self._add(name, "baseline", schedule, 0.0)

    def time(self, scheduler: Scheduler) -> None:
        """The latency of each whole model, and how it compares with the sequential one."""
        variants = scheduler.compile(self._schedules)
        runs = [variants.time(median_seconds) for _ in range(ROUNDS)]
        for point in self.points:
            point.latency_ms = 1e3 * median(run[point.name] for run in runs)
            point.ratio = median(run[point.name] / run["sequential"] for run in runs)

    def _add(self, name: str, kind: str, schedule: Schedule, seconds: float) -> None:
        self._schedules[name] = schedule
        count = 0 if kind == "baseline" else schedule.measurements
        (estimate,) = schedule.estimates.values()
        self.points.append(Point(name, kind, count, seconds, 1e3 * estimate))


def compare(model: str, threads: int | None, limits: Sequence[tuple[int, int]]) -> list[Point]:
    """All points of a network."""
    comparison = Comparison(model, threads)
    largest = limits[-1]
    for coverage in COVERAGES:
        options = Options(*largest, coverage=coverage)
        comparison.search(f"learned, coverage {coverage:g}", "learned", options)
    for r, s in limits:
        options = Options(r, s, measure_all=True)
        scheduler = comparison.search(f"all, r={r} s={s}", "measured", options)
    comparison.baselines(scheduler)
    comparison.time(scheduler)
    return comparison.points


def draw(results: dict[str, list[Point]], path: Path) -> None:
    """A curve for each network: stages measured, and the latency of what was found."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(5.5 * len(results), 4), squeeze=False)
    for axis, (model, points) in zip(axes[0], results.items(), strict=True):
        for kind, style in (("learned", "o-"), ("measured", "s--")):
            own = sorted((p.measurements, p.ratio) for p in points if p.kind == kind)
            axis.plot(*zip(*own, strict=True), style, label=kind)
        for point in (p for p in points if p.kind == "baseline"):
            style = "-" if point.name == "sequential" else ":"
            axis.axhline(point.ratio, color="grey", linestyle=style, label=point.name)
        axis.set(xscale="log", title=model, xlabel="stages measured", ylabel="latency ÷ sequential")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def read(path: Path) -> dict[str, list[Point]]:
    """Read the points of a file that ``--json`` has written."""
    networks = json.loads(path.read_text())["networks"]
    return {model: [Point(**point) for point in points] for model, points in networks.items()}


def show(results: dict[str, list[Point]]) -> None:
    """Print a table for each network."""
    for model, points in results.items():
        rows = [
            (
                p.name,
                str(p.measurements),
                f"{p.search_s:.1f}",
                f"{p.estimate_ms:.3f}",
                f"{p.latency_ms:.3f}",
                f"{p.ratio:.3f}",
            )
            for p in points
        ]
        print(f"\n{model}\n")
        header = ("search", "stages measured", "s", "sum of stages", "ms", "÷ sequential")
        print(markdown.table(header, rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare searches of the networks that are named."""
    networks = ["zoo:inception_v3", "zoo:nasnet_a_mobile"]
    parser = command.parser(__doc__, networks, "points")
    parser.add_argument(
        "--limits",
        default=" ".join(f"{r},{s}" for r, s in LIMITS),
        help="IOS's limits r,s to measure all stages within, the largest last; the learned "
        "searches have these (default: %(default)s)",
    )
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw them: NAME.svg, NAME.png")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="measure nothing; show the points of such a file"
    )
    args = parser.parse_args(arguments)
    limits = [tuple(map(int, pair.split(","))) for pair in args.limits.split()]
    results = read(args.table) if args.table else {}
    for model in [] if args.table else args.models:
        results[model] = compare(model, args.threads, limits)
        command.write(args.json, networks=results)
    show(results)
    if args.draw:
        draw(results, args.draw)


if __name__ == "__main__":
    main()
