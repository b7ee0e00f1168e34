# SPDX-License-Identifier: Apache-2.0
"""What scheduling gains on networks of many small operators, beside other runtimes.

Each network runs in the sequential schedule, in the greedy one, and in the one that is found, which
have the same kernels; ONNX Runtime runs it by both of its executors, OpenVINO by one stream. All
run the same ONNX file on the same number of threads, each in its own process, in turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import machine
from markdown import table
from peer.contender import CONTENDERS, OURS
from peer.contest import Contest, Plan
from peer.figures import Estimate, geometric_mean, ratio
from peer.gains import KINDS
from peer.libraries import Search
from peer.models import load
from peer.process import ContenderError
from peer.record import OWN, Comparison, Result
from peers import progress, read, save, versions, whole
from tvm_ios.errors import OptionError, TvmIosError
from tvm_ios.target import available_cores

_CONTENDERS = (*OURS, "onnxruntime", "onnxruntime_parallel", "openvino")


@dataclass(frozen=True)
class Kind:
    """A network and its size, if that is not the zoo's own.

    Attributes
    ----------
    network : str
        The name in the zoo.
    what : str
        What it is, for the page.
    size : dict
    """

    network: str
    what: str
    size: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "@".join([self.network, *map(str, self.size.values())])


_KINDS = (
    Kind("experts", "eight experts, three tasks"),
    Kind("dlrm", "26 tables, products of all pairs"),
    Kind("deep_and_cross", "two towers and a cross network"),
    Kind("wide_and_deep", "twelve tables, a deep part and a linear one"),
    Kind("bilstm", "two layers, both directions, 32 steps"),
    Kind("nasrnn", "a cell of eight gates, five steps"),
    Kind("wavenet", "ten layers of 32 channels, 1,024 samples"),
    Kind("echo", "two encoders of signals, six blocks"),
    Kind("heads", "two heads on five scales"),
    Kind("ensemble", "six small networks on images of 32x32"),
    Kind("rgcn", "three layers, four kinds of edges, 64 nodes"),
    Kind("darts", "eight cells on images of 32x32"),
    Kind("nasnet_a_mobile", "images of 64x64", {"image_size": 64}),
    Kind("randwire_small", "images of 64x64", {"image_size": 64}),
    Kind("googlenet", "images of 64x64", {"image_size": 64}),
    Kind("inception_v3", "images of 75x75", {"image_size": 75}),
)
_HEAD = """# What scheduling gains

Networks of many small operators, batch 1, float32, of random weights. The columns *sequential*,
*greedy* and *scheduled* are the same kernels in three schedules: one operator after another, as
many operators at a time as there are, and what the search finds. Where that is not proven to be
faster, the sequential schedule is what `tvm-ios compile` writes, and what the table has. Times are
milliseconds, medians of interleaved rounds; ratios are medians within rounds, with their 95%
interval. The best peer is the fastest of ONNX Runtime, by either of its executors, and OpenVINO.
`benchmarks/scheduling.py` writes this page.
"""
_GAINS = """## What the stages gain

How many stages of the found schedule have several operators, and by how many microseconds they are
faster than the operators one after another, as the search measured both. *Side by side*: groups
of operators run on different cores at the same time. *Merged*: one kernel computes several
operators. *Chained*: a worker runs operators one after another without waits in between.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, or write the page of what an earlier comparison has found; returns the status."""
    options = _parser().parse_args(argv)
    try:
        comparison = read(options.json) if options.page_only else _compare(options)
        page = render(comparison)
        if options.page:
            Path(options.page).write_text(page)
        else:
            print(page, end="")
    except (TvmIosError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", metavar="NAME,...", help="default: all")
    parser.add_argument(
        "--contenders", default=",".join(_CONTENDERS), metavar="NAME,...", help="%(default)s"
    )
    parser.add_argument("--threads", type=whole, default=available_cores(), metavar="N")
    parser.add_argument("--rounds", type=whole, default=15, metavar="R")
    parser.add_argument(
        "--window", type=float, default=0.15, metavar="S", help="seconds of a turn (%(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures, after each network")
    parser.add_argument("--page", metavar="FILE", help="write the page there")
    parser.add_argument("--page-only", action="store_true", help="only write the page of --json")
    return parser


def _compare(options: argparse.Namespace) -> Comparison:
    names = options.contenders.split(",")
    search = Search(options.threads, 3, 8)
    settings = {**asdict(search), "rounds": options.rounds, "window_s": options.window}
    comparison = Comparison(
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        machine=asdict(machine.describe()),
        threads=options.threads,
        batch=1,
        settings=settings,
        versions=versions(names),
        contenders={
            n: {"title": CONTENDERS[n].title, "settings": CONTENDERS[n].settings} for n in names
        },
    )
    for kind in _chosen(options.networks):
        plan = Plan(names, search, options.rounds, options.window, progress(kind.name))
        comparison.results.append(_result(kind, plan))
        save(comparison, options.json)
    return comparison


def _chosen(names: str | None) -> list[Kind]:
    known = {kind.name: kind for kind in _KINDS}
    wanted = list(known) if names is None else names.split(",")
    unknown = ", ".join(name for name in wanted if name not in known)
    if unknown:
        raise OptionError(f"There is no network {unknown}; there are: {', '.join(known)}.")
    return [known[name] for name in wanted]


def _result(kind: Kind, plan: Plan) -> Result:
    """The comparison on one network, or why there is none."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            model = load(kind.network, 1, Path(directory), **kind.size)
            result = Contest(model, plan, Path(directory)).run()
        except (ContenderError, TvmIosError) as error:
            result = Result(kind.name, failure=str(error))
    result.model = kind.name
    return result


def render(comparison: Comparison) -> str:
    """Return the page of a comparison."""
    heading = (
        f"{comparison.machine['cpu']}, {comparison.threads} threads, {comparison.date[:10]}, "
        f"{comparison.settings['rounds']} rounds. "
        + ", ".join(f"{name} {version}" for name, version in comparison.versions.items())
        + "."
    )
    done = [r for r in comparison.results if r.failure is None]
    failures = [f"- {r.model}: {r.failure}" for r in comparison.results if r.failure]
    parts = [_HEAD, heading, _summary(done), _times(done), *failures, _GAINS, _gains(done)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _summary(results: Sequence[Result]) -> str:
    """Return the geometric means."""
    gains = [pair for r in results if (pair := _rounds(r, "sequential")) is not None]
    best = [pair for r in results if (pair := r.pair_with_best()) is not None]
    lines = []
    for title, pairs in (("Sequential ÷ scheduled", gains), ("Best peer ÷ scheduled", best)):
        if pairs:
            mean = _estimate(geometric_mean(pairs))
            ratios = [ratio(*pair).median for pair in pairs]
            lines.append(
                f"- {title}: {mean} in geometric mean, from {min(ratios):.2f} to "
                f"{max(ratios):.2f}, over {len(pairs)} networks."
            )
    return "\n".join(lines)


def _times(results: Sequence[Result]) -> str:
    what = {kind.name: kind.what for kind in _KINDS}
    names = [n for n in CONTENDERS if any(n in r.entries for r in results)]
    header = ["network", "operators", *(CONTENDERS[name].title for name in names)]
    header += ["sequential ÷ scheduled", "best peer ÷ scheduled", "compile s", "with search s"]
    rows = []
    for r in results:
        times = [r.entries[n].median_ms if n in r.entries else None for n in names]
        gain, best = _rounds(r, "sequential"), r.pair_with_best()
        rows.append(
            [
                f"{r.model}: {what.get(r.model, '')}",
                str(r.compiled.get("sequential", {}).get("operators", "–")),
                *("–" if time is None else f"{time:#.3g}" for time in times),
                *("–" if pair is None else _estimate(ratio(*pair)) for pair in (gain, best)),
                *(_seconds(r, name) for name in ("sequential", OWN)),
            ]
        )
    return table(header, rows)


def _seconds(result: Result, name: str) -> str:
    seconds = result.entries[name].compile_s if name in result.entries else None
    return "–" if seconds is None else f"{seconds:.1f}"


def _gains(results: Sequence[Result]) -> str:
    header = ["network", *(f"{kind} {what}" for kind in KINDS for what in ("stages", "µs"))]
    rows = []
    for r in results:
        gains = r.compiled.get(OWN, {}).get("gains", {})
        cells = [
            f"{gains[kind][key]:.{digits}f}" if kind in gains else ""
            for kind in KINDS
            for key, digits in (("stages", 0), ("gain_us", 1))
        ]
        rows.append([r.model, *cells])
    return table(header, rows)


def _rounds(result: Result, name: str) -> tuple[list[float], list[float]] | None:
    """Return the rounds of a contender and of what is scheduled, if there are both."""
    pair = [result.entries.get(entry) for entry in (name, OWN)]
    if any(entry is None or entry.failure or not entry.rounds_ms for entry in pair):
        return None
    first, second = (entry.rounds_ms for entry in pair if entry is not None)
    return first, second


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.median:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"


if __name__ == "__main__":
    sys.exit(main())
