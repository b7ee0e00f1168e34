# SPDX-License-Identifier: Apache-2.0
"""Convolutions that are added up are computed as one; what is no sum of them is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tvm import relax

from support.conv2d import BIAS, Case, cases, reference
from support.networks import (
    NATIVE,
    TARGETS,
    assert_close,
    check_scheduled,
    isa_of,
    merging,
    poisoned,
    relax_module,
    run_kernel,
    unpack,
)
from support.sums import (
    NOT_REPLACED,
    REPLACED,
    THREE,
    WIDTH,
    Body,
    conv,
    its_own_input,
    network,
    replaced,
    tree,
)
from tvm_ios.backend.cpu.isa.bfloat16 import exact, nearest
from tvm_ios.backend.cpu.kernels.conv.image import IMAGE
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.conv.sum import conv2d_sum_kernel
from tvm_ios.backend.cpu.kernels.layout import PLAIN, pack_bf16_dot2, pack_weights
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options

op = relax.op


def check_sum(sum_of: Sequence[Case], target: tvm.target.Target, seed: int = 0) -> None:
    """Run the kernel of a sum of convolutions, a bias and a relu, and compare with SciPy."""
    core, layout = isa_of(target)
    random = np.random.default_rng(seed)
    draw = lambda *shape: random.standard_normal(shape).astype("float32")  # noqa: E731
    bias = draw(1, *sum_of[0].out_channels, 1, 1)
    expected, inputs = bias.astype("float64"), []
    for case in sum_of:
        image = draw(case.batch, case.channels, *case.size)
        weights = draw(*case.out_channels, case.channels, *case.kernel)
        expected = expected + reference(case, image, weights)
        source = PLAIN if case.plain else layout
        inputs += [
            poisoned(source, image),
            pack_weights(weights, source.block or 1, core.lanes, 1),
        ]
    convs = [Conv2d(c.batch, c.channels, *c.windows(), c.out_channels) for c in sum_of]
    layouts = [PLAIN if case.plain else layout for case in sum_of]
    kernel = conv2d_sum_kernel(convs, BIAS, layouts, layout, core)
    (output,) = run_kernel(kernel, [*inputs, layout.pack(bias)], target, seed)
    assert_close(unpack(output, expected.shape), np.maximum(expected, 0).astype("float32"))


ONE = Case(kernel=(1, 1), padding=(0, 0, 0, 0))
SUMS = {
    "pointwise": (ONE, replace(ONE, channels=33)),
    "pointwise, of a plain image": (replace(ONE, channels=5, plain=True), ONE),
    "3x3 and pointwise": (Case(), ONE),
    "pointwise and 3x3 of a batch": (replace(ONE, batch=2), Case(batch=2, channels=7)),
    "strided and not": (
        replace(ONE, size=(18, 21), stride=(2, 2)),
        replace(ONE, channels=40),
    ),
    "1x7 and 7x1": (
        Case(kernel=(1, 7), padding=(0, 3, 0, 3)),
        Case(kernel=(7, 1), padding=(3, 0, 3, 0)),
    ),
    "three": (Case(out_channels=(88,)), replace(ONE, out_channels=(88,)), Case(out_channels=(88,))),
    "dilated": (Case(dilation=(2, 2), padding=(2, 2, 2, 2)), Case(channels=1)),
}


@pytest.mark.parametrize("sum_of", SUMS.values(), ids=SUMS)
def test_sums_of_convolutions(sum_of: Sequence[Case]) -> None:
    check_sum(sum_of, NATIVE)


@pytest.mark.parametrize("emulated", [True, False], ids=["emulated", "by instructions"])
@pytest.mark.parametrize("sum_of", SUMS.values(), ids=SUMS)
def test_sums_by_bf16_dot2(sum_of: Sequence[Case], emulated: bool) -> None:
    """Sums of convolutions of bfloat16, of rounded factors."""
    core, layout = isa_of(NATIVE)
    if not emulated and core.bf16_dot2 is None:
        pytest.skip("this machine does not run bfloat16")
    core = replace(core, bf16_dot2=None) if emulated else core
    random = np.random.default_rng(0)
    draw = lambda *shape: random.standard_normal(shape).astype("float32")  # noqa: E731
    bias = draw(1, *sum_of[0].out_channels, 1, 1)
    expected, inputs = bias.astype("float64"), []
    sum_of = [replace(c, channels=IMAGE.block - 1) if c.plain else c for c in sum_of]
    for case in sum_of:
        image = exact(nearest(draw(case.batch, case.channels, *case.size)))
        weights = exact(nearest(draw(*case.out_channels, case.channels, *case.kernel)))
        expected = expected + reference(case, image, weights)
        source = IMAGE if case.plain else layout
        image = IMAGE.pack(image) if case.plain else poisoned(layout, image)
        inputs += [nearest(image), pack_bf16_dot2(weights, source.block, core.lanes, 1)]
    convs = [Conv2d(c.batch, c.channels, *c.windows(), c.out_channels) for c in sum_of]
    layouts = [IMAGE if case.plain else layout for case in sum_of]
    kernel = conv2d_sum_kernel(convs, BIAS, layouts, layout, core, factors="pairs")
    (output,) = run_kernel(kernel, [*inputs, layout.pack(bias)], NATIVE)
    assert_close(unpack(output, expected.shape), np.maximum(expected, 0).astype("float32"))


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(cases(), cases(), st.integers(1, 40))
def test_sums_of_any_two_convolutions(one: Case, other: Case, channels: int) -> None:
    """The second's image is as large as makes the results equally large."""
    rows, columns = (window.out for window in one.windows())
    size = []
    for a, out in enumerate((rows, columns)):
        reach = (other.kernel[a] - 1) * other.dilation[a] + 1
        padding = other.padding[a] + other.padding[a + 2]
        size.append((out - 1) * other.stride[a] + reach - padding)
    assume(min(size) > 0)
    other = replace(other, batch=one.batch, size=tuple(size))
    check_sum([replace(case, out_channels=(channels,)) for case in (one, other)], NATIVE)


@pytest.mark.parametrize(("body", "operators"), REPLACED.values(), ids=REPLACED)
def test_sums_in_a_network(body: Body, operators: int) -> None:
    mod = network(body)
    schedule = Scheduler.prepare(mod, NATIVE, cost_model=merging).search()
    assert replaced(schedule) == [operators]
    check_scheduled(mod, schedule=schedule)


@pytest.mark.parametrize(("body", "operators"), REPLACED.values(), ids=REPLACED)
def test_sums_in_half_precision(body: Body, operators: int, monkeypatch) -> None:
    """An input that is added to its own convolution becomes no weight, which would be rounded."""
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")
    mod = network(body)
    options = Options(precision="bf16", winograd=False)
    schedule = Scheduler.prepare(mod, NATIVE, cost_model=merging, options=options).search()
    assert replaced(schedule) == ([operators] if operators > 1 else [])
    check_scheduled(mod, schedule=schedule, precision="bf16", winograd=False, relative=0.02)


def test_convolutions_of_different_precision_are_not_added_up(monkeypatch) -> None:
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")
    mod = network(REPLACED["two inputs"][0])
    options = Options(precision="bf16", winograd=False)
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=merging, options=options)
    convolutions = [op.name for op in scheduler.graph.operators if op.kind == "conv2d"][-2:]
    for kernels in ({}, dict.fromkeys(convolutions, "direct"), {convolutions[0]: "direct"}):
        builder = scheduler.stage_builder.chosen(kernels, {})
        alike = len(kernels) != 1
        ops = tuple(op.index for op in scheduler.graph.operators if op.name in convolutions)
        assert (builder.replacements.find(ops) is not None) == alike


@st.composite
def summands(draw: st.DrawFn) -> tuple[list[dict], bool]:
    """Two convolutions whose results are as large as the image, and whether that is added, too."""
    convs = []
    for _ in range(2):
        dilation = draw(st.integers(1, 2))
        kernel = draw(st.tuples(*[st.integers(1, 4)] * 2))
        reach = [(size - 1) * dilation for size in kernel]
        before = [draw(st.integers(0, length)) for length in reach]
        after = [length - first for length, first in zip(reach, before, strict=True)]
        padding = (*before, *after)
        convs.append({"kernel": kernel, "padding": padding, "dilation": (dilation, dilation)})
    return convs, draw(st.booleans())


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(summands(), st.booleans(), st.integers(2, 40), st.integers(0, 99))
def test_the_rule_on_random_sums(drawn, same: bool, width: int, seed: int) -> None:
    """Its kernel and its weights, against SciPy's convolutions added up."""
    (convs, with_input), random = drawn, np.random.default_rng(seed)
    draw = lambda *shape: random.standard_normal(shape).astype("float32")  # noqa: E731
    weights = [draw(width, width, *attrs["kernel"]) for attrs in convs]
    biases = [draw(1, width, 1, 1) for _ in convs]
    images = [draw(1, width, 5, 6) for _ in convs]
    expected = images[0].astype("float64") * with_input

    def body(emit, x, y):
        data = (x, x if same else y)
        values = []
        for d, w, b, attrs in zip(data, weights, biases, convs, strict=True):
            rest = {k: v for k, v in attrs.items() if k != "kernel"}
            value = emit(op.nn.conv2d(d, relax.const(w, "float32"), **rest))
            values.append(emit(op.add(value, relax.const(b, "float32"))))
        value = emit(op.add(*values))
        return emit(op.add(value, x)) if with_input else value

    for i, (w, b, attrs) in enumerate(zip(weights, biases, convs, strict=True)):
        case = Case(1, width, (5, 6), (width,), **attrs)
        expected = expected + reference(case, images[0 if same else i], w) + b
    scheduler = Scheduler.prepare(network(body, (1, width, 5, 6)), NATIVE, cost_model=merging)
    lowered = scheduler.stage_builder.lowered
    ops, rule = next((s, r) for s, r in scheduler.stage_builder.replacements.sets.items() if s[1:])
    implementation = rule.target(ops)
    x = lowered.graph.operators[ops[0]].anchor.args[0]
    _, layout = isa_of(NATIVE)
    inputs = [
        value if isinstance(value, np.ndarray)
        else poisoned(layout, images[not value.same_as(x)])
        for value in implementation.inputs
    ]  # fmt: skip
    (output,) = run_kernel(implementation.kernel, inputs, NATIVE, seed)
    assert_close(unpack(output, expected.shape), expected.astype("float32"))


@pytest.mark.parametrize("target", TARGETS)
def test_sums_in_every_instruction_set(target: tvm.target.Target) -> None:
    mod = network(tree)
    schedule = Scheduler.prepare(mod, target, cost_model=merging).search()
    assert replaced(schedule)
    check_scheduled(mod, target=target, schedule=schedule)


@pytest.mark.parametrize("body", NOT_REPLACED.values(), ids=NOT_REPLACED)
def test_what_is_no_sum_of_convolutions(body: Body) -> None:
    scheduler = Scheduler.prepare(network(body), NATIVE, cost_model=merging)
    assert not scheduler.stage_builder.replacements.sets


def test_a_convolution_added_to_what_it_reads() -> None:
    scheduler = Scheduler.prepare(network(its_own_input), NATIVE, cost_model=merging)
    (ops,) = scheduler.stage_builder.replacements.sets
    assert len(ops) == 1


def test_weights_that_are_inputs() -> None:
    def body(emit, image, w):
        x = emit(op.nn.max_pool2d(image, (3, 3), padding=1))
        left = emit(op.nn.conv2d(x, w, padding=1))
        value = emit(op.add(left, conv(emit, x, 2, **THREE)))
        return emit(op.nn.avg_pool2d(value, (2, 2)))

    mod = relax_module(body, (1, WIDTH, 9, 11), (WIDTH, WIDTH, 3, 3))
    assert not Scheduler.prepare(mod, NATIVE, cost_model=merging).stage_builder.replacements.sets


def test_a_sum_that_leaves_the_function() -> None:
    def body(emit, x):
        return emit(op.add(conv(emit, x, 1, **THREE), conv(emit, x, 2, **THREE)))

    mod = relax_module(body, (1, WIDTH, 9, 11))
    assert not Scheduler.prepare(mod, NATIVE, cost_model=merging).stage_builder.replacements.sets
