# SPDX-License-Identifier: Apache-2.0
"""The limits of this machine: arithmetic, memory, and the cost of parallelism.

Every figure of a kernel or a network is held against these. Speeds are the fastest of many short
runs, costs the median of many; the vector width comes from the target, cores and caches from the
system.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import tvm

import machine
import markdown
import pool
from levels import levels
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.measure import memory_bandwidth
from tvm_ios.backend.cpu.measure.peak_flops import MultiplyAdds
from tvm_ios.target import available_cores, num_workers, resolve


@dataclass(frozen=True)
class Peak:
    """What was measured.

    Attributes
    ----------
    machine : Machine
    target : str
        For all threads.
    lanes : int
        float32 values in a vector.
    fma_gflops, bf16_gflops : dict of int to float
        Of float32, and of bfloat16, by number of threads; the latter is empty if the
        processor does not multiply them.
    bandwidth : list of Bandwidth
    pool : PoolCosts or None
        None for one thread, which hands no work to anyone.
    """

    machine: machine.Machine
    target: str
    lanes: int
    fma_gflops: dict[int, float]
    bf16_gflops: dict[int, float]
    bandwidth: list[memory_bandwidth.Bandwidth]
    pool: pool.PoolCosts | None


def measure(target: str, threads: int) -> Peak:
    """Measure one core, and ``threads`` cores together."""
    facts = machine.describe()
    targets = [resolve(target, threads=count) for count in sorted({1, threads})]
    return Peak(
        facts,
        str(targets[-1]),
        core_of(targets[-1]).lanes,
        {num_workers(t): MultiplyAdds(t).gflops() for t in targets},
        {num_workers(t): MultiplyAdds(t, bf16=True).gflops() for t in targets if has_bf16_dot2(t)},
        [bandwidth for t in targets for bandwidth in _bandwidths(t, facts.caches)],
        pool.measure(targets[-1]) if threads > 1 else None,
    )


def has_bf16_dot2(target: tvm.target.Target) -> bool:
    """Return whether the processor multiplies bfloat16 by dot2 instructions."""
    return core_of(target).bf16_dot2 is not None


def _bandwidths(
    target: tvm.target.Target, caches: Sequence[machine.Cache]
) -> list[memory_bandwidth.Bandwidth]:
    workers = int(target.attrs["num-cores"])
    return [memory_bandwidth.measure(target, level) for level in levels(caches, workers)]


def show(peak: Peak) -> None:
    """Print the machine and three tables."""
    facts = peak.machine
    caches = ", ".join(f"L{c.level} {_size(c.size)} for {c.shared_by}" for c in facts.caches)
    print(f"{facts.cpu}, {facts.cores} cores available, {_threads(facts.threads_per_core)} a core")
    print(f"caches (for how many threads): {caches or 'unknown'}; memory {_size(facts.memory)}")
    print(f"{peak.target}\n{peak.lanes} lanes of float32\n")
    rows = [
        (f"{kind}, {_threads(count)}", f"{speed:.1f}")
        for kind, speeds in (("float32", peak.fma_gflops), ("bfloat16", peak.bf16_gflops))
        for count, speed in speeds.items()
    ]
    print(markdown.table(("multiply-adds in registers", "GFLOP/s"), rows))
    print()
    speeds = [
        (
            f"{b.level}, {_threads(b.threads)}",
            _size(b.bytes_per_worker),
            *(f"{speed:.1f}" for speed in (b.read, b.write, b.copy)),
        )
        for b in peak.bandwidth
    ]
    print(markdown.table(("level", "bytes a thread", "read GB/s", "write", "copy"), speeds))
    if peak.pool is not None:
        print()
        print(_pool_table(peak.pool))


def _pool_table(costs: pool.PoolCosts) -> str:
    rows = [
        ("a call", f"{costs.call:.3f}"),
        (f"a launch of {costs.threads} threads adds", f"{costs.launch:.2f}"),
        (f"a barrier of {costs.threads} threads adds", f"{costs.barrier:.2f}"),
    ]
    return markdown.table(("TVM's thread pool", "µs"), rows)


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _size(count: int) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="llvm", help="completed with this machine's CPU")
    parser.add_argument("--threads", type=int, help="of the parallel figures (default: all cores)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    peak = measure(options.target, options.threads or available_cores())
    if options.json:
        print(json.dumps(asdict(peak), indent=1))
    else:
        show(peak)


if __name__ == "__main__":
    main()
