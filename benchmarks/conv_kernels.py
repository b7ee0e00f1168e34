# SPDX-License-Identifier: Apache-2.0
"""How fast the kernels of a network's convolutions and pools are, by the limits of the cores.

Each distinct operator of a kind is timed alone, with its epilogue: activations are as warm as the
cache allows, weights as cold as in the network. A kernel can be no faster than its multiply-adds at
their peak, nor than the bytes of its tensors at the bandwidth of the nearest cache that holds them
all; both limits are measured in the same run. On several cores a kernel is a stage of its own, with
its launch. Multiply-adds are counted with those of the padding, which the kernels leave out.
Winograd's algorithm is not used unless it is asked for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import tvm
from tvm import relax

import machine
import markdown
from levels import levels
from peak import has_bf16_dot2
from tvm_ios import zoo
from tvm_ios.backend.cpu.backend import network_kernels
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.measure import memory_bandwidth
from tvm_ios.backend.cpu.measure.builder import CpuKernelBuilder
from tvm_ios.backend.cpu.measure.peak_flops import MultiplyAdds
from tvm_ios.backend.cpu.measure.runner import CpuStageRunner
from tvm_ios.backend.cpu.rules import LoweringConfig
from tvm_ios.backend.cpu.stage.build import CpuStageBuilder
from tvm_ios.graph.dag import Candidate
from tvm_ios.graph.extract import extract
from tvm_ios.graph.operators import Operator
from tvm_ios.measure.cost import MeasuredCost
from tvm_ios.measure.transport.pool import LocalPool
from tvm_ios.measure.transport.session import LocalSession
from tvm_ios.relax_ir.expressions import static_shape
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.schedule.options import Precision
from tvm_ios.schedule.rounding import BF16
from tvm_ios.target import num_workers, resolve

KINDS = ("conv2d", "depthwise_conv2d", "max_pool2d", "avg_pool2d")
REPEAT = 15
WINDOW = 5e-3  # seconds that the repetitions of one kernel take together, if they can


@dataclass(frozen=True)
class Limits:
    """What the cores can do together.

    Attributes
    ----------
    gflops : float
        Peak of multiply-adds.
    bandwidths : dict of str to (float, float)
        By level: the bytes that it holds, and GB/s of copying there; the nearest first.
    """

    gflops: float
    bf16_gflops: float | None
    bandwidths: dict[str, tuple[float, float]]

    def of(self, flops: int, num_bytes: int, bf16: bool) -> tuple[str, float]:
        """What holds a kernel back most, and the seconds that it takes at least."""
        fitting = ((n, s) for n, (size, s) in self.bandwidths.items() if num_bytes <= size)
        level, speed = next(fitting)
        gflops = self.bf16_gflops if bf16 and self.bf16_gflops else self.gflops
        seconds = {"multiply-adds": flops / gflops / 1e9, level: num_bytes / speed / 1e9}
        limit = max(seconds, key=seconds.__getitem__)
        return limit, seconds[limit]


@dataclass
class Result:
    """A kernel, how many of it the network has, and its speed.

    Attributes
    ----------
    model, kind : str
    input, window : list of int
        Shapes of the input and of the weights; a pool's window has two axes.
    stride, count : int
    microseconds, gflops, gbytes : float
        ``gbytes`` a second of inputs, weights and results.
    limit : str
        What holds it back most: multiply-adds, or the level that its bytes come from.
    least_microseconds : float
        What it takes at that limit.
    """

    model: str
    kind: str
    input: list[int]
    window: list[int]
    stride: int
    count: int
    microseconds: float
    gflops: float
    gbytes: float
    limit: str
    least_microseconds: float


def measure_limits(target: tvm.target.Target) -> Limits:
    """The limits of as many of this machine's cores as the target has."""
    bandwidths, workers = {}, num_workers(target)
    for level in levels(machine.describe().caches, workers):
        size = float("inf") if level.name == "memory" else 2.0 * workers * level.bytes_per_worker
        bandwidths[level.name] = (size, memory_bandwidth.measure(target, level).copy)
    bf16 = MultiplyAdds(target, bf16=True).gflops() if has_bf16_dot2(target) else None
    return Limits(MultiplyAdds(target).gflops(), bf16, bandwidths)


def measure(
    model: str,
    kinds: Sequence[str],
    target: tvm.target.Target,
    limits: Limits,
    winograd: bool,
    precision: Precision = "fp32",
) -> Iterator[Result]:
    """Time each distinct operator of some kinds of a network of the zoo."""
    prepared = prepare(zoo.load(model), "main")
    graph = extract(prepared, "main")
    values = relax.analysis.free_vars(prepared["main"].body.body)
    config = LoweringConfig(core_of(target), winograd, num_workers(target), precision=precision)
    stage_builder = CpuStageBuilder.of(graph, values, config)
    lowered = stage_builder.lowered
    seconds_of = _timer(stage_builder, target)
    operators: dict[object, list[Operator]] = {}
    for op in graph.operators:
        if op.kind in kinds and not op.opaque:
            key = lowered.implementations[op.index].kernel.key
            operators.setdefault(key, []).append(op)
    for op, *others in operators.values():
        seconds = seconds_of(op.index)
        kernel = lowered.implementations[op.index].kernel
        num_bytes = sum(spec.num_bytes for spec in kernel.tensors)
        limit, least = limits.of(op.flops, num_bytes, kernel.variant == BF16)
        yield Result(
            model,
            op.kind,
            *_shapes(op),
            int(op.anchor.attrs.strides[0]),
            1 + len(others),
            1e6 * seconds,
            op.flops / seconds / 1e9,
            num_bytes / seconds / 1e9,
            limit,
            1e6 * least,
        )


def _timer(stage_builder: CpuStageBuilder, target: tvm.target.Target) -> Callable[[int], float]:
    """What gives the seconds of one operator, on as many cores as the target has."""
    lowered = stage_builder.lowered
    builder, workers = CpuKernelBuilder(target, network_kernels(lowered)), num_workers(target)
    device = CpuStageRunner(lowered, builder, LocalSession(), seed=0)
    if workers > 1:
        pool = LocalPool(device, builder)
        cost = MeasuredCost.begin(pool, stage_builder)
        return lambda index: float(cost([Candidate((index,), "concurrent")])[0])

    def alone(index: int) -> float:
        implementation = lowered.implementations[index]
        first = device.time_alone([implementation], 2).seconds[-1, 0]
        repeat = max(REPEAT, int(WINDOW / first))
        return float(np.median(device.time_alone([implementation], repeat).seconds))

    return alone


def _shapes(op: Operator) -> tuple[list[int], list[int]]:
    """The shapes of the operator's input and of its weights or its window."""
    data = list(static_shape(op.anchor.args[0], "an input"))
    if len(op.anchor.args) > 1:
        return data, list(static_shape(op.anchor.args[1], "a weight"))
    return data, [int(size) for size in op.anchor.attrs.pool_size]


def show(results: Sequence[Result], target: tvm.target.Target, limits: Limits) -> None:
    """Print a table, and each network's speed over all kernels of a kind."""
    print(f"{target}\npeak of multiply-adds: {limits.gflops:.0f} GFLOP/s")
    if limits.bf16_gflops:
        print(f"of bfloat16: {limits.bf16_gflops:.0f} GFLOP/s")
    speeds = (f"{name} {speed:.0f} GB/s" for name, (_, speed) in limits.bandwidths.items())
    print(f"bandwidth of a copy: {', '.join(speeds)}\n")
    rows = [
        (r.kind, _by(r.input), _by(r.window), str(r.stride), *_speeds([r]), r.limit)
        for r in results
    ]
    for model, kind in dict.fromkeys((r.model, r.kind) for r in results):
        same = [r for r in results if (r.model, r.kind) == (model, kind)]
        rows.append((f"all {kind} of {model}", "", "", "", *_speeds(same), ""))
    header = ("kind", "input", "window", "stride", "count", "µs", "GFLOP/s", "GB/s", "%", "of")
    print(markdown.table(header, rows))


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _speeds(results: Sequence[Result]) -> tuple[str, str, str, str, str]:
    """Return count, time, speeds and share of the limits over all of some kernels."""
    total = sum(r.count * r.microseconds for r in results)
    gflops = sum(r.count * r.microseconds * r.gflops for r in results) / total
    gbytes = sum(r.count * r.microseconds * r.gbytes for r in results) / total
    percent = 100 * sum(r.count * r.least_microseconds for r in results) / total
    count = sum(r.count for r in results)
    return str(count), f"{total:.0f}", f"{gflops:.0f}", f"{gbytes:.0f}", f"{percent:.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the models that are named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=("squeezenet", "inception_v3"))
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS, metavar="KIND")
    parser.add_argument("--winograd", action="store_true", help="where a network would use it")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--target", default="llvm", help="completed with this machine's CPU")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    target = resolve(options.target, threads=options.threads)
    limits = measure_limits(target)
    results = [
        result
        for model in options.models
        for result in measure(
            model, options.kinds, target, limits, options.winograd, options.precision
        )
    ]
    if options.json:
        kernels = [asdict(result) for result in results]
        print(json.dumps({"target": str(target), "limits": asdict(limits), "kernels": kernels}))
    else:
        show(results, target, limits)


if __name__ == "__main__":
    main()
