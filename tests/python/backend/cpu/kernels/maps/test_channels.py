# SPDX-License-Identifier: Apache-2.0
"""Channels of blocked feature maps in another order."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st

from support.networks import TARGETS, isa_of, poisoned, run_kernel, unpack
from tvm_ios.backend.cpu.kernels.maps.channels import Channel, channels_kernel, runs_of
from tvm_ios.backend.cpu.kernels.maps.planes import Planes
from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.ops.window import Window

ADD = Epilogue(
    (
        Step("add", (Operand("value", 0), Operand("argument", 0))),
        Step("maximum", (Operand("value", 1), Operand("argument", 1))),
    ),
    ("channel", "full"),
)


def check(operands: list[int], channels: list[Channel], target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    random = np.random.default_rng(0)
    images = [random.standard_normal((2, c, 3, 35)).astype("float32") for c in operands]
    shift = random.standard_normal((1, len(channels), 1, 1)).astype("float32")
    least = random.standard_normal((2, len(channels), 3, 35)).astype("float32")
    rows, columns = (Window(size, size, 1) for size in (3, 35))
    planes = Planes("identity", 2, len(channels), rows, columns, epilogue=ADD)
    kernel = channels_kernel(planes, operands, channels, layout, core)
    maps = [poisoned(layout, image) for image in images]
    (output,) = run_kernel(kernel, [*maps, layout.pack(shift), poisoned(layout, least)], target)
    gathered = np.stack([images[operand][:, channel] for operand, channel in channels], axis=1)
    np.testing.assert_array_equal(unpack(output, least.shape), np.maximum(gathered + shift, least))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("begin", "end", "channels"),
    [(0, 16, 40), (16, 40, 40), (5, 26, 40), (26, 52, 104), (39, 40, 40), (1, 37, 37), (0, 3, 3)],
)
def test_ranges(begin: int, end: int, channels: int, target: tvm.target.Target) -> None:
    check([channels], [(0, channel) for channel in range(begin, end)], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "counts", [(58, 58), (16, 32, 20), (5, 20, 7), (1, 1, 1, 40), (3,)], ids=str
)
def test_concatenations(counts: tuple[int, ...], target: tvm.target.Target) -> None:
    channels = [(i, channel) for i, count in enumerate(counts) for channel in range(count)]
    check(list(counts), channels, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("groups", "channels"), [(2, 116), (2, 58), (3, 51), (4, 64), (8, 24)])
def test_shuffles(groups: int, channels: int, target: tvm.target.Target) -> None:
    order = np.arange(channels).reshape(groups, -1).T.reshape(-1)
    check([channels], [(0, int(channel)) for channel in order], target)


@pytest.mark.parametrize("target", TARGETS)
def test_any_order(target: tvm.target.Target) -> None:
    random = np.random.default_rng(1)
    operands = [17, 5, 33]
    every = [(i, channel) for i, count in enumerate(operands) for channel in range(count)]
    check(operands, [every[i] for i in random.permutation(len(every))[:40]], target)


def test_blocks_that_are_alike_share_code() -> None:
    """Of 58 and 58 channels, three blocks are the first's, one is of both, four are shifted."""
    concatenated = [(i, channel) for i in range(2) for channel in range(58)]
    assert [(run.count, len(run.lanes)) for run in runs_of(concatenated, 16)] == [
        (3, 1),
        (1, 1),
        (4, 1),
    ]
    shuffled = [
        (0, channel) for pair in zip(range(58), range(58, 116), strict=True) for channel in pair
    ]
    assert [(run.count, len(run.lanes)) for run in runs_of(shuffled, 16)] == [(8, 2)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), min_size=1, max_size=70))
def test_runs_are_the_channels(channels: list[Channel]) -> None:
    lanes, found = 4, []
    for run in runs_of(channels, lanes):
        for block in range(run.count):
            repetition, number = divmod(block, len(run.lanes))
            found += [(o, c + run.step * repetition * lanes) for o, c in run.lanes[number]]
    assert found[: len(channels)] == channels
    assert len(found) - len(channels) < lanes
