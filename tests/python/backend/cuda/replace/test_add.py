# SPDX-License-Identifier: Apache-2.0
"""Convolutions that are added up are one kernel of a CUDA device; other sums are left alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import relax

from support.conv2d import Case, reference
from support.cuda.fake_driver import TARGET, Emulated, plain
from support.cuda.model import Driver
from support.cuda.run import ordered
from support.cuda.whole import settings
from support.networks import (
    UNOPTIMISED,
    assert_close,
    compile_plain,
    constant,
    flatten,
    merging,
    random_arguments,
    relax_module,
    run_vm,
)
from support.sums import (
    NOT_REPLACED,
    REPLACED,
    SINGLE,
    THREE,
    Body,
    conv,
    network,
    replaced,
    two,
)
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.schedule.options import PRECISIONS

op = relax.op
ORDERS = ("issued", "reverse", "1")
CHAIN = (
    "one input, 3x3 and 1x1",
    "two inputs",
    "the input, an even kernel",
    "a sum of sums",
    "a shortcut with a stride",
)


def chain(emit, x, y):
    """Sums of each kind one after another."""
    for name in CHAIN:
        x = emit(op.nn.relu(REPLACED[name][0](emit, x, y)))
        y = emit(op.nn.avg_pool2d(y, (3, 3), padding=1))
    return x


def run(module: tvm.IRModule, arguments: list[np.ndarray], precision: str = "fp32") -> tuple:
    """The operators of each merged stage, and what the network computes in several orders; the
    launches of a run."""
    scheduler = Scheduler.prepare(
        module, TARGET, cost_model=merging, options=Options(precision=precision)
    )
    schedule = scheduler.search()
    variants = scheduler.compile({"merged": schedule})
    driver, results = Driver(), []
    for order in ORDERS:
        with ordered(order), driver.journal() as journal:
            results.append(flatten(variants("merged", list(map(tvm.runtime.tensor, arguments)))))
    return replaced(schedule), results, plain(journal)


def test_a_network_of_sums(emulated: Emulated) -> None:
    module = network(chain)
    arguments = random_arguments(module)
    merged, results, journal = emulated.call(run, module, arguments)
    assert merged == [REPLACED[name][1] for name in CHAIN]
    (graph,) = (line for line in journal if line.startswith("replay"))
    launched = [re.sub(r"tvm_ios_|_\d+(_kernel)?", "", name) for name in graph.split()[3:]]
    assert launched.count("conv2d_added") == len(CHAIN)
    # The one that makes the shortcut's image smaller; all else are poolings.
    assert launched.count("conv2d") == 1
    assert not any("elementwise" in name for name in launched), launched
    (expected,) = run_vm(compile_plain(module, UNOPTIMISED), arguments)
    for (result,) in results:
        assert_close(result, expected, 2e-5)


@dataclass(frozen=True)
class Sum:
    """Two convolutions, of one input or of two, and whether the first's input is added, too."""

    cases: tuple[Case, Case]
    same: bool
    identity: bool
    ending: str


def drawn(random: np.random.Generator) -> Sum:
    """Sizes that no tile divides, windows of two sizes, strides, gaps, padding on some sides."""
    kind = str(random.choice(["same", "two", "identity"]))
    stride = 1 if kind == "identity" else int(random.integers(1, 3))
    channels = int(random.integers(9, 25))
    width = channels if kind == "identity" else int(random.integers(9, 25))
    out = tuple(int(size) for size in random.integers(6, 9, 2))
    first = _case(random, channels, width, out, stride, out if kind == "identity" else None)
    if kind == "two":
        channels, stride = int(random.integers(9, 25)), int(random.integers(1, 3))
    size = None if kind == "two" else first.size
    second = _case(random, channels, width, out, stride, size)
    ending = str(random.choice(["", "relu", "gate"]))
    return Sum((first, second), kind != "two", kind == "identity", ending)


def _case(
    random: np.random.Generator,
    channels: int,
    width: int,
    out: tuple[int, ...],
    stride: int,
    size: tuple[int, ...] | None,
) -> Case:
    """A convolution whose result is ``out`` large, of an image of that size, or of any."""
    while True:
        kernel, dilation = random.integers(1, 5, 2), int(random.integers(1, 3))
        reach = [(k - 1) * dilation + 1 for k in kernel]
        before = [int(random.integers(0, r)) for r in reach]
        needed = [(o - 1) * stride + r for o, r in zip(out, reach, strict=True)]
        if size is None:
            after = [int(random.integers(0, r)) for r in reach]
            image = [n - b - a for n, b, a in zip(needed, before, after, strict=True)]
        else:
            image = list(size)
            after = [n - b - s for n, b, s in zip(needed, before, size, strict=True)]
        if min(after) >= 0 and min(image) > 0:
            return Case(
                2, channels, tuple(image), (width,), tuple(map(int, kernel)), (stride, stride),
                (*before, *after), (dilation, dilation),
            )  # fmt: skip


def eighths(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers that no precision rounds, nor their sums."""
    return (random.integers(-8, 9, shape) / 8).astype("float32")


def network_of(sums: list[Sum], random: np.random.Generator) -> tuple:
    """All sums in one network, its arguments, and what SciPy makes of them."""
    arguments: list[np.ndarray] = []
    places, weights, biases = [], [], []
    for drawn_sum in sums:
        images = [eighths(random, c.batch, c.channels, *c.size) for c in drawn_sum.cases]
        images = images[:1] if drawn_sum.same else images
        places.append((len(arguments), len(arguments) + len(images) - 1))
        arguments += images
        of = [(c.out_channels[0], c.channels, *c.kernel) for c in drawn_sum.cases]
        weights.append([eighths(random, *shape) for shape in of])
        biases.append([eighths(random, 1, shape[0], 1, 1) for shape in of])

    def body(emit, *inputs):
        results = []
        for s, place, ws, bs in zip(sums, places, weights, biases, strict=True):
            values = []
            for c, i, w, b in zip(s.cases, place, ws, bs, strict=True):
                attrs = {"padding": c.padding, "strides": c.stride, "dilation": c.dilation}
                value = emit(op.nn.conv2d(inputs[i], relax.const(w), **attrs))
                values.append(emit(op.add(value, relax.const(b))))
            value = emit(op.add(*values))
            if s.identity:
                value = emit(op.add(inputs[place[0]], value))
            if s.ending == "relu":
                value = emit(op.nn.relu(value))
            elif s.ending == "gate":
                value = emit(op.multiply(value, emit(op.sigmoid(value))))
            results.append(value)
        return relax.Tuple(results)

    expected = []
    for s, place, ws, bs in zip(sums, places, weights, biases, strict=True):
        parts = zip(s.cases, place, ws, bs, strict=True)
        value = sum(reference(c, arguments[i], w) + b for c, i, w, b in parts)
        value = value + arguments[place[0]] if s.identity else value
        ends = {"": value, "relu": np.maximum(value, 0), "gate": value / (1 + np.exp(-value))}
        expected.append(ends[s.ending].astype("float32"))
    return relax_module(body, *(a.shape for a in arguments)), arguments, expected


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_random_sums(emulated: Emulated, precision: str, count: int) -> None:
    random = np.random.default_rng(PRECISIONS.index(precision))
    module, arguments, expected = network_of([drawn(random) for _ in range(count)], random)
    merged, results, _ = emulated.call(run, module, arguments, precision)
    assert merged == [2] * count
    for made in results:
        for result, wanted in zip(made, expected, strict=True):
            assert_close(result, wanted, 1e-6)


def search(module: tvm.IRModule) -> tuple[list[int], list[int]]:
    """What a search by measuring merges, where a launch takes a millisecond, and each stage."""
    with settings({"TVM_IOS_FAKE_DRIVER_COMPUTE": "0"}):
        schedule = Scheduler.prepare(module, TARGET).search()
    return replaced(schedule), [len(stage.operators) for stage in schedule.stages]


def test_measuring_chooses(emulated: Emulated) -> None:
    """One launch of two convolutions takes less than one after the other."""
    module = relax_module(two(THREE, SINGLE, same=False), (1, 20, 9, 9), (1, 20, 9, 9))
    merged, stages = emulated.call(search, module)
    assert merged == stages == [2]


def small(emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """There is no tile for so little."""
    x = emit(op.nn.avg_pool2d(x, (9, 11)))
    return emit(op.add(conv(emit, x, 1, **SINGLE), conv(emit, x, 2, **SINGLE)))


def depthwise(emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    weights = [constant(20, 1, 3, 3, seed=seed) for seed in (1, 2)]
    values = [emit(op.nn.conv2d(x, w, padding=1, groups=20)) for w in weights]
    return emit(op.add(*values))


REFUSED: dict[str, Body] = {
    **NOT_REPLACED,
    "few operations": small,
    "a channel at a time": depthwise,
}


def test_what_is_no_sum_of_convolutions() -> None:
    """Each on inputs of its own: what is computed twice would be computed once."""

    def body(emit, *inputs):
        pairs = zip(inputs[::2], inputs[1::2], strict=True)
        bodies = zip(REFUSED.values(), pairs, strict=True)
        return relax.Tuple([value(emit, x, y) for value, (x, y) in bodies])

    module = relax_module(body, *[(2, 20, 9, 11)] * (2 * len(REFUSED)))
    scheduler = Scheduler.prepare(module, TARGET, cost_model=merging)
    kinds = [operator.kind for operator in scheduler.graph.operators]
    # But for the depthwise ones, and for an image that is added to its own convolution.
    assert kinds.count("conv2d") == 2 * (len(REFUSED) - 1) - 1
    assert not scheduler.stage_builder.replacements.sets


def test_weights_that_are_inputs() -> None:
    def body(emit, x, w):
        left = emit(op.nn.conv2d(x, w, padding=1))
        return emit(op.add(left, conv(emit, x, 2, **THREE)))

    module = relax_module(body, (2, 20, 9, 11), (20, 20, 3, 3))
    assert not Scheduler.prepare(module, TARGET, cost_model=merging).stage_builder.replacements.sets


def test_what_leaves_the_network() -> None:
    """A sum may, and what is added up there may not."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(name, relax.TensorType((2, 20, 9, 11), "float32")) for name in "xy"]
    weights = [constant(20, 20, 3, 3, seed=seed) for seed in (1, 2)]
    with builder.function("main", inputs):
        with builder.dataflow():
            left = builder.emit_output(op.nn.conv2d(inputs[0], weights[0], padding=1))
            right = builder.emit(op.nn.conv2d(inputs[1], weights[1], padding=1))
            both = builder.emit_output(op.add(left, right))
        builder.emit_func_output(relax.Tuple([left, both]))
    assert not Scheduler.prepare(
        builder.get(), TARGET, cost_model=merging
    ).stage_builder.replacements.sets
