# SPDX-License-Identifier: Apache-2.0
"""Winograd's convolution beside the direct one on one core: time and error.

Each distinct convolution that Winograd's algorithm can compute is computed directly and with each
size of its tiles, in turns, with its epilogue. Weights come from an arena as large as all that are
compared, so that they are as cold as in a network; of the times that the core spends on it the
shortest counts. The error is that of normally distributed data and weights against float64,
relative to the largest output.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

import markdown
from tvm_ios import zoo
from tvm_ios.backend.cpu.core import Core, core_of
from tvm_ios.backend.cpu.kernels.conv.conv2d import conv2d_kernel
from tvm_ios.backend.cpu.kernels.conv.fold import folds
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.kernels.layout import PLAIN, Layout, pack_weights
from tvm_ios.backend.cpu.kernels.winograd.convolution import pack_winograd, winograd_kernel
from tvm_ios.backend.cpu.kernels.winograd.model import (
    WinogradTiling,
    best_tiling,
    choose_winograd,
    tile_sizes,
    variant_name,
    variants,
)
from tvm_ios.backend.cpu.measure.balance import machine_balance
from tvm_ios.backend.cpu.measure.builder import CpuKernelBuilder
from tvm_ios.backend.cpu.rules import LoweringConfig
from tvm_ios.backend.cpu.rules.convolution import conv_geometry
from tvm_ios.backend.cpu.rules.implement import implement
from tvm_ios.graph.extract import extract
from tvm_ios.lowering.cold import ColdWeights
from tvm_ios.ops.epilogue import NOTHING
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.ops.window import Window
from tvm_ios.relax_ir.expressions import static_shape
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.target import resolve

ROUNDS = 30
NAMES = ("direct", "winograd2", "winograd3", "winograd4")


@dataclass
class Result:
    """A convolution and how many of it the network has; times and errors by algorithm."""

    model: str
    input: list[int]
    taps: list[int]
    out_channels: int
    count: int
    chosen: str
    microseconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How much faster the algorithm that is chosen is than the direct one."""
        return self.microseconds["direct"] / self.microseconds[self.chosen]


class Runner:
    """A compiled kernel with tensors of its own."""

    def __init__(self, kernel: Kernel, target: tvm.target.Target) -> None:
        builder = CpuKernelBuilder(target)  # its folder goes with it
        library = builder.library(kernel)
        module = tvm.runtime.load_module(str(library.path))
        self.kernel = kernel
        self._phases = [
            (module[name], phase.num_tiles)
            for name, phase in zip(library.names[kernel.key], kernel.phases, strict=True)
        ]
        random = np.random.default_rng(0)
        arrays = [random.standard_normal(s.shape, "float32") for s in kernel.tensors]
        self._tensors = list(map(tvm.runtime.tensor, arrays))

    def compute(self, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The result, as it lies in memory."""
        self._tensors[:2] = tvm.runtime.tensor(image), tvm.runtime.tensor(weights)
        self.run(self._tensors[1])
        return self._tensors[len(self.kernel.inputs)].numpy()

    def run(self, weights: tvm_ffi.Tensor) -> float:
        """Seconds that the core spends on the kernel with these weights."""
        tensors = [self._tensors[0], weights, *self._tensors[2:]]
        begin = time.thread_time()
        for function, tiles in self._phases:
            function(*tensors, 0, tiles)
        return time.thread_time() - begin


class Arena:
    """Random weights that are as cold as in a network with all of ``specs``."""

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        self._random, self._memories = np.random.default_rng(0), list[tvm.runtime.Tensor]()
        self._cold = ColdWeights(specs, self._allocate)

    def take(self, spec: TensorSpec) -> tvm.runtime.Tensor:
        """The next weights of this shape."""
        place = self._cold.take(spec)
        flat = np.from_dlpack(self._memories[place.memory])
        begin = place.offset // flat.itemsize
        taken = flat[begin : begin + math.prod(spec.shape)].reshape(spec.shape)
        return tvm.runtime.from_dlpack(taken)

    def _allocate(self, size: int) -> int:
        self._memories.append(
            tvm.runtime.tensor(self._random.standard_normal(size // 4, dtype="float32"))
        )
        return len(self._memories) - 1


def convolutions(model: str, core: Core) -> Counter[Conv2d]:
    """The convolutions of a network that have a choice."""
    prepared = prepare(zoo.load(model), "main")
    graph = extract(prepared, "main")
    results = relax.analysis.free_vars(prepared["main"].body.body)
    layouts = implement(graph, results, LoweringConfig(core)).layouts
    found: Counter[Conv2d] = Counter()
    for op in graph.operators:
        if op.kind != "conv2d":
            continue
        geometry = conv_geometry(op.anchor)
        batch, channels = static_shape(op.anchor.args[0], "an image")[:2]
        outputs = (static_shape(op.anchor, "a result")[1],)
        windows = (geometry.rows, geometry.columns)
        conv = Conv2d(batch, channels, *windows, outputs, geometry.groups, op.epilogue)
        if tile_sizes(conv) and (op.anchor.args[0] in layouts) != folds(conv):
            found[conv] += 1
    return found


def tilings_of(conv: Conv2d, target: tvm.target.Target) -> list[WinogradTiling]:
    """The best for each size of tile."""
    core, balance = core_of(target), machine_balance(target)
    return [best_tiling(conv, (m,), core, 1, balance) for m in tile_sizes(conv)]


def source_of(conv: Conv2d, core: Core) -> Layout:
    """The layout in which the network has the feature map."""
    return PLAIN if folds(conv) else Layout(core.lanes)


def kernels_of(conv: Conv2d, target: tvm.target.Target) -> list[Kernel]:
    """The direct kernel, and one for each size of tile."""
    core = core_of(target)
    source = source_of(conv, core)
    winograd = [winograd_kernel(conv, t, source, core) for t in tilings_of(conv, target)]
    return [conv2d_kernel(conv, source, Layout(core.lanes), core), *winograd]


def weights_of(
    conv: Conv2d, weights: np.ndarray, target: tvm.target.Target
) -> Iterator[np.ndarray]:
    """The weights as each of these kernels reads them."""
    core = core_of(target)
    yield pack_weights(weights, source_of(conv, core).block or 1, core.lanes, 1)
    for tiling in tilings_of(conv, target):
        yield pack_winograd(weights, conv, tiling, core.lanes)


def measure(model: str, target: tvm.target.Target) -> Iterator[Result]:
    """Compare the algorithms for each distinct convolution of a network of the zoo."""
    core = core_of(target)
    for conv, count in convolutions(model, core).items():
        runners = [Runner(kernel, target) for kernel in kernels_of(conv, target)]
        specs = [runner.kernel.inputs[1] for runner in runners]
        arena = Arena(specs * 4)
        times = [
            [runner.run(arena.take(spec)) for runner, spec in zip(runners, specs, strict=True)]
            for _ in range(ROUNDS)
        ]
        tiling = choose_winograd(conv, core, 1, machine_balance(target))
        chosen = variant_name(tiling)
        image = [conv.batch, conv.channels, conv.rows.size, conv.columns.size]
        taps = [conv.rows.kernel, conv.columns.kernel]
        result = Result(model, image, taps, *conv.out_channels, count, chosen)
        result.microseconds = dict(zip(variants(conv), np.min(times, axis=0) * 1e6, strict=True))
        result.errors = errors(conv, target)
        yield result


def errors(conv: Conv2d, target: tvm.target.Target) -> dict[str, float]:
    """The largest error of each algorithm, relative to the largest output, without epilogue."""
    conv = replace(conv, epilogue=NOTHING)
    core = core_of(target)
    random, layout = np.random.default_rng(0), Layout(core.lanes)
    image = random.standard_normal((conv.batch, conv.channels, conv.rows.size, conv.columns.size))
    shape = (*conv.out_channels, conv.channels, conv.rows.kernel, conv.columns.kernel)
    weights = random.standard_normal(shape).astype("float32")
    image = image.astype("float32")
    source, packed = source_of(conv, core).pack(image), weights_of(conv, weights, target)
    expected = layout.pack(reference(conv, image, weights))
    lanes = conv.out_channels[0] % core.lanes or core.lanes
    found = {}
    for name, kernel, array in zip(variants(conv), kernels_of(conv, target), packed, strict=True):
        difference = np.abs(Runner(kernel, target).compute(source, array) - expected)
        difference[:, -1, :, lanes:] = 0.0  # lanes that hold no channel
        found[name] = float(difference.max() / np.abs(expected).max())
    return found


def reference(conv: Conv2d, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The convolution in float64, tap by tap."""
    rows, columns = conv.rows, conv.columns
    after = [max(0, w.position(w.out, w.kernel - 1) - w.size) for w in (rows, columns)]
    padding = ((0, 0), (0, 0), (rows.before, after[0]), (columns.before, after[1]))
    padded, weights = np.pad(image.astype("float64"), padding), weights.astype("float64")
    taps = [
        np.tensordot(weights[:, :, r, s], padded[..., _reads(rows, r), _reads(columns, s)], (1, 1))
        for r in range(rows.kernel)
        for s in range(columns.kernel)
    ]
    return sum(taps).swapaxes(0, 1)


def _reads(window: Window, tap: int) -> slice:
    """What a tap reads of a padded axis."""
    return slice(tap, tap + window.stride * (window.out - 1) + 1, window.stride)


def show(results: Sequence[Result], target: tvm.target.Target) -> None:
    """Print a table, and the sum of each network's convolutions."""
    print(f"{target}\n")
    header = ["input", "taps", "to", "count", *(f"{n} µs" for n in NAMES), "chosen", "ratio"]
    header += [f"{name} error" for name in NAMES]
    rows = []
    for r in results:
        times = [f"{r.microseconds[name]:.0f}" if name in r.errors else "" for name in NAMES]
        errors_of = [f"{r.errors[name]:.1e}" if name in r.errors else "" for name in NAMES]
        shapes = ("x".join(map(str, shape)) for shape in (r.input, r.taps))
        chosen = (r.chosen, f"{r.ratio:.2f}")
        rows.append((*shapes, str(r.out_channels), str(r.count), *times, *chosen, *errors_of))
    for model in dict.fromkeys(r.model for r in results):
        of_model = [r for r in results if r.model == model]
        direct = sum(r.count * r.microseconds[NAMES[0]] for r in of_model)
        chosen = sum(r.count * r.microseconds[r.chosen] for r in of_model)
        worst = [f"{max(r.errors.get(name, 0.0) for r in of_model):.1e}" for name in NAMES]
        times = [f"{direct:.0f}", *[""] * len(NAMES[1:]), f"{chosen:.0f}", f"{direct / chosen:.2f}"]
        count = str(sum(r.count for r in of_model))
        rows.append((f"all of {model}", "", "", count, *times, *worst))
    print(markdown.table(header, rows))


def main() -> None:
    """Compare on the networks that are named, or on three."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    networks = ("squeezenet", "resnet50", "inception_v3")
    parser.add_argument("models", nargs="*", default=networks, help=", ".join(networks))
    parser.add_argument("--target", default="llvm", help="completed with this machine's CPU")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    target = resolve(options.target, threads=1)
    results = [result for model in options.models for result in measure(model, target)]
    if options.json:
        print(json.dumps({"target": str(target), "convolutions": list(map(asdict, results))}))
    else:
        show(results, target)


if __name__ == "__main__":
    main()
