# SPDX-License-Identifier: Apache-2.0
"""The search alone on an operator graph, with costs that ask no device.

The graph is a file in the reference format; each of its parts is searched on its own. The cost is
FCM-1, which the C++ library computes, in whole nanoseconds. Printed is one JSON object. With bounds
``transitions`` and ``evaluations`` count the stages that were priced; without them the counts are
those of the plain dynamic programme. Equal parts are searched once and counted as often as they are
there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvm_ios.search import SearchResult, greedy, sequential
from tvm_ios.support import _ffi_api

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support import fcm1  # the format's reader

_GREEDY_GROUPS = 8
_PLAIN = [[1, 1], [1, 1], [0, 0], [1, 1]]  # sizes of an operator that is never merged with another


@dataclass(frozen=True)
class Limits:
    """What a search may do; None is no limit."""

    max_group_size: int | None
    max_num_groups: int | None
    bounds: bool
    seconds: float


@dataclass(frozen=True)
class Problem:
    """A part as the C++ library takes it."""

    part: fcm1.Part
    operators: np.ndarray
    merge_class: np.ndarray

    @staticmethod
    def of(part: fcm1.Part) -> Problem:
        operators = np.array([_row(op) for op in part.ops], "int64")
        return Problem(part, operators, np.array(part.merge_class(), "int64"))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for parts of which one search is enough."""
        return self.operators.tobytes(), self.merge_class.tobytes(), tuple(self.part.dag.edges)

    def search(self, limits: Limits) -> SearchResult:
        r, s = (
            self.part.dag.num_ops if limit is None else limit
            for limit in (limits.max_group_size, limits.max_num_groups)
        )
        dag = self.part.dag
        if limits.bounds:
            return _ffi_api.SearchFcm1(dag, self.merge_class, self.operators, r, s, limits.seconds)

        space = _ffi_api.Explore(dag, self.merge_class, [], r, s, np.iinfo(np.int64).max)
        costs = _ffi_api.Fcm1Costs(dag, self.operators, *_ffi_api.Candidates(space))
        return _ffi_api.Solve(space, costs)


def _row(op: dict) -> list[int]:
    merged = fcm1.merge_key(op) is not None
    shape = [op["input_shape"][0], op["out_channels"], op["groups"]] if merged else [1, 1, 1]
    sizes = [op["input_shape"][1:], op["kernel"], op["padding"], op["stride"]] if merged else _PLAIN
    return [op["L_ns"], op["W_ns"], *shape, *(n for pair in sizes for n in pair)]


def measure(blocks: Sequence[fcm1.Block], limits: Limits) -> dict[str, object]:
    """Search all parts of some blocks; the baselines run over the blocks as they are."""
    problems = [Problem.of(part) for block in blocks for part in block.parts]
    begin = time.perf_counter()
    found: dict[tuple[object, ...], SearchResult] = {}
    for problem in problems:
        if problem.key not in found:
            found[problem.key] = problem.search(limits)
    results = [found[problem.key] for problem in problems]
    seconds = time.perf_counter() - begin
    total = {
        name: sum(getattr(result, name) for result in results)
        for name in ("states", "transitions", "evaluations")
    }
    optimum, bound = (
        round(sum(getattr(r, n) for r in results)) for n in ("latency", "lower_bound")
    )
    return {
        **total,
        "optimum_ns": optimum,
        "sequential_ns": sum(_price(b.whole, sequential(b.whole.dag)) for b in blocks),
        "greedy_ns": sum(_price(b.whole, greedy(b.whole.dag, _GREEDY_GROUPS)) for b in blocks),
        "seconds": round(seconds, 6),
        "proved": all(result.proved for result in results),
        "lower_bound_ns": bound,
    }


def _price(part: fcm1.Part, stages: Sequence) -> int:
    return part.schedule_ns(stage.groups for stage in stages)


def main(arguments: Sequence[str] | None = None) -> None:
    """Search a file and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph", metavar="GRAPH.json")
    parser.add_argument("--max-group-size", type=int, metavar="R", help="default: no limit")
    parser.add_argument("--max-num-groups", type=int, metavar="S", help="default: no limit")
    parser.add_argument("--blocks", metavar="N,N", help="only the blocks of these indices")
    parser.add_argument("--no-bounds", action="store_true", help="the plain dynamic programme")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="for each part, with bounds (default: 5)"
    )
    args = parser.parse_args(arguments)
    known = fcm1.load_file(args.graph)
    wanted = [int(index) for index in args.blocks.split(",")] if args.blocks else list(known)
    if unknown := [str(index) for index in wanted if index not in known]:
        parser.error(f"{args.graph} has no block {', '.join(unknown)}")
    limits = Limits(args.max_group_size, args.max_num_groups, not args.no_bounds, args.seconds)
    print(json.dumps(measure([known[index] for index in wanted], limits)))


if __name__ == "__main__":
    main()
