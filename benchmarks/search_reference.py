# SPDX-License-Identifier: Apache-2.0
"""How long the search itself takes on the networks of the IOS paper.

The cost model is FCM-1 of the tests, which asks no device, so that what is left is the dynamic
programme: enumeration, solution and the hand-over of the candidates. The time in the cost model is
told apart. The last columns are the paper's times (section 6.2 and 6.3), most of which is spent on
measuring stages.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import markdown
from tvm_ios.graph.dag import Candidate
from tvm_ios.search import find_schedule, greedy, sequential

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support import fcm1  # the tests' cost model

LIMITS = ((1, 3), (1, 8), (2, 8), (3, 8))
PAPER_SECONDS = {
    ("squeezenet", 3, 8): 1,
    ("inception_v3", 1, 3): 5,
    ("inception_v3", 1, 8): 7,
    ("inception_v3", 2, 8): 25,
    ("inception_v3", 3, 8): 43,
    ("nasnet_large", 1, 3): 137,
    ("nasnet_large", 1, 8): 492,
    ("nasnet_large", 3, 8): 3412,
}


@dataclass
class Result:
    """One search over all parts of a network; costs are in ms of FCM-1, times in seconds."""

    network: str
    max_group_size: int
    max_num_groups: int
    states: int
    transitions: int
    evaluations: int
    sequential_ms: float
    greedy_ms: float
    optimum_ms: float
    search_s: float
    cost_model_s: float
    paper_s: float | None


class TimedCost:
    """The cost function of a part, with the seconds that were spent in it."""

    def __init__(self, part: fcm1.Part) -> None:
        self._part = part
        self.seconds = 0.0

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        begin = time.perf_counter()
        result = self._part.cost(candidates)
        self.seconds += time.perf_counter() - begin
        return result


def search(network: str, max_group_size: int, max_num_groups: int) -> Result:
    """Search each part of a network; greedy and sequential run over whole blocks."""
    blocks = fcm1.load_blocks(network)
    result = Result(
        network,
        max_group_size,
        max_num_groups,
        states=0,
        transitions=0,
        evaluations=0,
        sequential_ms=sum(b.schedule_ns(sequential(b.dag)) for b in blocks) / 1e6,
        greedy_ms=sum(b.schedule_ns(greedy(b.dag)) for b in blocks) / 1e6,
        optimum_ms=0.0,
        search_s=0.0,
        cost_model_s=0.0,
        paper_s=PAPER_SECONDS.get((network, max_group_size, max_num_groups)),
    )
    for part in (part for block in fcm1.load(network) for part in block):
        cost = TimedCost(part)
        begin = time.perf_counter()
        found = find_schedule(
            part.dag,
            cost,
            merge_class=part.merge_class(),
            max_group_size=max_group_size,
            max_num_groups=max_num_groups,
        )
        result.search_s += time.perf_counter() - begin - cost.seconds
        result.cost_model_s += cost.seconds
        result.states += found.states
        result.transitions += found.transitions
        result.evaluations += found.evaluations
        result.optimum_ms += found.latency / 1e6
    return result


def show(results: Sequence[Result]) -> None:
    """Print a table."""
    header = (
        "network, r, s|states|transitions|evaluations|sequential|greedy|optimum|search|cost|paper"
    )
    rows = [
        (
            f"{r.network}, {r.max_group_size}, {r.max_num_groups}",
            *(f"{count:,}" for count in (r.states, r.transitions, r.evaluations)),
            *(f"{cost:.3f}" for cost in (r.sequential_ms, r.greedy_ms, r.optimum_ms)),
            *(f"{seconds:.3f}" for seconds in (r.search_s, r.cost_model_s)),
            "-" if r.paper_s is None else str(r.paper_s),
        )
        for r in results
    ]
    print(markdown.table(header.split("|"), rows))
    print("\nSchedules in ms of FCM-1; search, cost model and the paper's search in seconds.")


def main() -> None:
    """Search the networks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    networks = ("squeezenet", "inception_v3", "nasnet_large")
    parser.add_argument("networks", nargs="*", default=networks, help=", ".join(networks))
    parser.add_argument("--json", action="store_true", help="print a list of JSON objects")
    options = parser.parse_args()
    results = [search(network, r, s) for network in options.networks for r, s in LIMITS]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        show(results)


if __name__ == "__main__":
    main()
