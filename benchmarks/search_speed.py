# SPDX-License-Identifier: Apache-2.0
"""The search alone on an operator graph, with costs that ask no device.

The graph is a file in the reference format; each of its parts is searched on its own. The cost is
FCM-1 of the tests, in whole nanoseconds. Printed is one JSON object. With bounds the counts
``transitions`` and ``evaluations`` are of stages that were priced; without them they are those of
the plain dynamic programme. Equal parts are searched once and counted as often as they are there.
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
import tvm_ffi

from tvm_ios.search import SearchResult, find_schedule, greedy, sequential

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support import fcm1  # the format's reader

_GREEDY_GROUPS = 8


@dataclass(frozen=True)
class Limits:
    """What a search may do; None is no limit."""

    max_group_size: int | None
    max_num_groups: int | None
    bounds: bool
    seconds: float


def search(part: fcm1.Part, limits: Limits) -> SearchResult:
    """Search a part by itself."""
    merge_class = np.array(part.merge_class(), "int64")
    r, s = limits.max_group_size, limits.max_num_groups
    if not limits.bounds:
        return find_schedule(
            part.dag, part.cost, merge_class=merge_class, max_group_size=r, max_num_groups=s
        )
    times = np.array([[op["L_ns"], op["W_ns"]] for op in part.ops], "float64")
    result = tvm_ffi.get_global_func("tvm_ios.FindBounded")(
        part.dag,
        merge_class,
        fcm1.STAGE_NS,
        fcm1.GROUP_NS,
        times,
        lambda ops: fcm1.merge_ns([part.ops[op] for op in ops]),
        part.dag.num_ops if r is None else r,
        part.dag.num_ops if s is None else s,
        limits.seconds,
    )
    return SearchResult.of(result)


def _key(part: fcm1.Part) -> str:
    """Equal for parts of which one search is enough."""
    return repr(
        (
            [(op["L_ns"], op["W_ns"], _shape(op)) for op in part.ops],
            part.merge_class(),
            list(part.dag.edges),
        )
    )


def _shape(op: dict) -> tuple[object, ...] | None:
    """What decides the cost of a convolution that may be merged."""
    if fcm1.merge_key(op) is None:
        return None
    return tuple(
        op[name] for name in ("input_shape", "out_channels", "kernel", "padding", "stride")
    )


def measure(blocks: Sequence[fcm1.Block], limits: Limits) -> dict[str, object]:
    """Search all parts of some blocks; the baselines run over the blocks as they are."""
    parts = {_key(part): part for block in blocks for part in block.parts}
    begin = time.perf_counter()
    found = {key: search(part, limits) for key, part in parts.items()}
    results = [found[_key(part)] for block in blocks for part in block.parts]
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
        "sequential_ns": sum(b.whole.schedule_ns(sequential(b.whole.dag)) for b in blocks),
        "greedy_ns": sum(b.whole.schedule_ns(greedy(b.whole.dag, _GREEDY_GROUPS)) for b in blocks),
        "seconds": round(seconds, 6),
        "proved": all(result.proved for result in results),
        "lower_bound_ns": bound,
    }


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
