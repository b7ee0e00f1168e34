# SPDX-License-Identifier: Apache-2.0
"""Convolutions of groups that are narrower than a vector, or no multiple of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tvm import relax

from support.networks import (
    NATIVE,
    TARGETS,
    assert_close,
    few_stages,
    isa_of,
    poisoned,
    relax_module,
    run_kernel,
    unpack,
)
from tvm_ios.backend.cpu.kernels.conv.grouped import Groups, grouped_kernel, pack_grouped
from tvm_ios.backend.cpu.kernels.maps.planes import Planes
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.ops.window import Window

ADD = Epilogue(
    (
        Step("add", (Operand("value", 0), Operand("argument", 0))),
        Step("maximum", (Operand("value", 1), Operand("argument", 1))),
    ),
    ("channel", "full"),
)


@dataclass(frozen=True)
class Case:
    """A convolution of ``count`` groups; ``padding`` is on all sides."""

    groups: Groups
    count: int
    batch: int = 1
    size: tuple[int, int] = (7, 33)
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    dilation: int = 1
    padding: int = 1

    @property
    def windows(self) -> tuple[Window, Window]:
        windows = []
        for size, kernel in zip(self.size, self.kernel, strict=True):
            room = size + 2 * self.padding - self.dilation * (kernel - 1) - 1
            out = room // self.stride + 1
            windows.append(Window(size, out, kernel, self.stride, self.dilation, self.padding))
        return windows[0], windows[1]


def reference(case: Case, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sums of each group, in double precision, ``[N, K, H, W]``."""
    rows, columns = case.windows
    pad = case.padding
    padded = np.pad(image.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    padded = padded.reshape(case.batch, case.count, case.groups.inputs, *padded.shape[2:])
    split = weights.astype("float64").reshape(case.count, case.groups.outputs, *weights.shape[1:])
    result = np.zeros((case.batch, case.count, case.groups.outputs, rows.out, columns.out))
    for r, s in np.ndindex(*case.kernel):
        y, x = r * case.dilation, s * case.dilation
        height, width = ((w.out - 1) * case.stride + 1 for w in (rows, columns))
        part = padded[..., y : y + height : case.stride, x : x + width : case.stride]
        result += np.einsum("ngchw,gkc->ngkhw", part, split[..., r, s])
    return result.reshape(case.batch, -1, rows.out, columns.out)


def check(case: Case, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    assert case.groups.computable(core.lanes, case.kernel[1])
    random = np.random.default_rng(0)
    draw = lambda *shape: random.standard_normal(shape).astype("float32")  # noqa: E731
    channels, out_channels = (case.count * c for c in (case.groups.inputs, case.groups.outputs))
    image = draw(case.batch, channels, *case.size)
    weights = draw(out_channels, case.groups.inputs, *case.kernel)
    sums = reference(case, image, weights)
    bias, least = draw(1, out_channels, 1, 1), draw(*sums.shape)
    planes = Planes("depthwise", case.batch, out_channels, *case.windows, epilogue=ADD)
    inputs = [
        poisoned(layout, image),
        pack_grouped(weights, core.lanes),
        layout.pack(bias),
        poisoned(layout, least),
    ]
    kernel = grouped_kernel(planes, case.groups, channels, layout, core)
    (output,) = run_kernel(kernel, inputs, target)
    assert_close(unpack(output, sums.shape), np.maximum(sums + bias, least).astype("float32"))


CASES = {
    "4 channels, as ResNeXt": Case(Groups(4, 4), 8, batch=2),
    "8 channels, strided": Case(Groups(8, 8), 4, stride=2),
    "groups end within a vector": Case(Groups(4, 4), 7),
    "one channel": Case(Groups(1, 1), 21, kernel=(5, 5), padding=2),
    "two for one": Case(Groups(1, 2), 19),
    "one for two": Case(Groups(2, 1), 20),
    "three channels": Case(Groups(3, 3), 12, kernel=(2, 2), padding=0),
    "six channels": Case(Groups(6, 6), 5, size=(5, 9), kernel=(1, 3)),
    "wider than a vector": Case(Groups(20, 20), 3, size=(4, 9), kernel=(3, 1)),
    "unlike numbers": Case(Groups(6, 4), 6, size=(5, 8), kernel=(3, 2)),
    "dilated": Case(Groups(4, 4), 4, dilation=2, padding=2),
    "wide windows": Case(
        Groups(2, 2), 10, size=(1, 130), kernel=(1, 44), padding=0, stride=2, dilation=2
    ),
    "pointwise": Case(Groups(8, 8), 6, kernel=(1, 1), padding=0),
    "one pixel": Case(Groups(4, 4), 4, size=(1, 1)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_groups(case: Case, target: tvm.target.Target) -> None:
    check(case, target)


WIDTHS = st.integers(1, 12) | st.integers(1, 40)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kernel = draw(st.tuples(*[st.integers(1, 4)] * 2))
    return Case(
        groups=Groups(draw(WIDTHS), draw(WIDTHS)),
        count=draw(st.integers(1, 20)),
        batch=draw(st.integers(1, 2)),
        size=tuple(k + draw(st.integers(0, 12)) for k in kernel),
        kernel=kernel,
        stride=draw(st.integers(1, 3)),
        padding=draw(st.integers(0, min(kernel) - 1)),
    )


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(cases())
def test_groups_of_any_geometry(case: Case) -> None:
    assume(case.groups.computable(isa_of(NATIVE)[0].lanes, case.kernel[1]))
    check(case, NATIVE)


def test_each_lane_reads_its_own_group() -> None:
    for inputs, outputs in [(4, 4), (3, 6), (24, 24), (5, 7)]:
        groups, lanes = Groups(inputs, outputs), 16
        if not groups.computable(lanes, 1):
            continue
        for block in range(groups.period(lanes)):
            for channel in range(inputs):
                sources, elements = groups.source(block, channel, lanes)
                for lane, element in enumerate(elements):
                    read = sources[element // lanes] * lanes + element % lanes
                    assert read // inputs == (block * lanes + lane) // outputs
                    assert read % inputs == channel


@pytest.mark.parametrize(
    ("channels", "out_channels", "groups", "kernel"),
    [
        (32, 32, 8, "grouped"),
        (16, 32, 16, "grouped"),
        (48, 48, 3, "conv2d"),
        (20, 20, 20, "depthwise"),
        (420, 12, 12, "conv2d"),  # read from too many vectors: TVM's schedule
    ],
)
def test_the_rule_that_computes_a_convolution(
    channels: int, out_channels: int, groups: int, kernel: str
) -> None:
    weights = np.random.default_rng(0).standard_normal((out_channels, channels // groups, 3, 3))

    def body(emit, x: relax.Expr) -> relax.Expr:
        constant = relax.const(weights.astype("float32"))
        return emit(relax.op.nn.conv2d(x, constant, padding=1, groups=groups))

    mod = relax_module(body, (1, channels, 9, 9))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    (implementation,) = scheduler.stage_builder.lowered.implementations
    assert implementation.kernel.name == kernel
