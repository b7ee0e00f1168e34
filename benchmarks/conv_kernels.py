# SPDX-License-Identifier: Apache-2.0
"""How fast the convolution kernels of a network are on one core, as a share of its FMA peak.

The peak is measured, not looked up: a loop of independent vector multiply-adds in registers,
compiled as the kernels are. Each distinct convolution of a network is timed alone, with its
epilogue, on tensors that are warm in the cache as far as they fit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import tvm
from tvm import relax

import markdown
from fma import peak_gflops
from tvm_ios import zoo
from tvm_ios.graph.extract import extract
from tvm_ios.graph.operators import Operator
from tvm_ios.graph.prepare import prepare
from tvm_ios.lower.implement import implement
from tvm_ios.lower.rules import Preferences
from tvm_ios.measure.device import Device
from tvm_ios.target import core_of, resolve

REPEAT = 15
WINDOW = 5e-3  # seconds that the repetitions of one convolution take together, if they can


@dataclass
class Result:
    """A convolution, how many of it the network has, and its speed on one core."""

    model: str
    input: list[int]
    weights: list[int]
    stride: int
    count: int
    microseconds: float
    gflops: float
    share_of_peak: float


def measure(model: str, target: tvm.target.Target, peak: float) -> Iterator[Result]:
    """Time each distinct convolution of a network of the zoo."""
    prepared = prepare(zoo.load(model), "main")
    graph = extract(prepared, "main")
    values = relax.analysis.free_vars(prepared["main"].body.body)
    lowered = implement(graph, values, Preferences(core_of(target)))
    device = Device(lowered, target, seed=0)
    convolutions: dict[object, list[Operator]] = {}
    for op in graph.operators:
        if op.kind == "conv2d":
            key = lowered.implementations[op.index].kernel.key
            convolutions.setdefault(key, []).append(op)
    for same in convolutions.values():
        op = same[0]
        implementation = lowered.implementations[op.index]
        first = device.time_alone(implementation, 2)[-1]
        repeat = max(REPEAT, int(WINDOW / first))
        seconds = float(np.median(device.time_alone(implementation, repeat)))
        gflops = op.flops / seconds / 1e9
        shapes = [[int(d) for d in arg.ty.shape.values] for arg in op.anchor.args]
        stride = int(op.anchor.attrs.strides[0])
        yield Result(model, *shapes, stride, len(same), seconds * 1e6, gflops, gflops / peak)


def show(results: Sequence[Result], target: tvm.target.Target, peak: float) -> None:
    """Print a table, and each network's speed over all of its convolutions."""
    print(f"{target}\npeak of multiply-adds: {peak:.0f} GFLOP/s\n")
    rows = [
        ("x".join(map(str, r.input)), "x".join(map(str, r.weights)), str(r.stride), *_speeds([r]))
        for r in results
    ]
    for model in dict.fromkeys(r.model for r in results):
        rows.append((f"all of {model}", "", "", *_speeds([r for r in results if r.model == model])))
    header = ("input", "weights", "stride", "count", "µs", "GFLOP/s", "% of peak")
    print(markdown.table(header, rows))


def _speeds(results: Sequence[Result]) -> tuple[str, str, str, str]:
    """Return count, time, speed and share of the peak over all of some convolutions."""
    total = sum(r.count * r.microseconds for r in results)
    shares = [r.count * r.microseconds / total for r in results]
    gflops = sum(w * r.gflops for w, r in zip(shares, results, strict=True))
    percent = 100 * sum(w * r.share_of_peak for w, r in zip(shares, results, strict=True))
    return str(sum(r.count for r in results)), f"{total:.0f}", f"{gflops:.0f}", f"{percent:.0f}"


def main() -> None:
    """Measure the models that are named, or both large ones of the zoo."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=("squeezenet", "inception_v3"))
    parser.add_argument("--target", default="llvm", help="completed with this machine's CPU")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    target = resolve(options.target, threads=1)
    peak = peak_gflops(target)
    results = [result for model in options.models for result in measure(model, target, peak)]
    if options.json:
        convolutions = [asdict(result) for result in results]
        print(json.dumps({"target": str(target), "peak_gflops": peak, "kernels": convolutions}))
    else:
        show(results, target, peak)


if __name__ == "__main__":
    main()
