# SPDX-License-Identifier: Apache-2.0
"""Where Winograd's algorithm is chosen, and where not; how much it rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.networks import NATIVE, isa_of, poisoned, run_kernel, unpack
from tvm_ios.backend.cpu.core import TYPICAL, Core, MachineBalance
from tvm_ios.backend.cpu.kernels.conv.conv2d import conv2d_kernel
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.layout import Layout, pack_weights
from tvm_ios.backend.cpu.kernels.tiling import RegisterTile
from tvm_ios.backend.cpu.kernels.winograd.convolution import pack_winograd, winograd_kernel
from tvm_ios.backend.cpu.kernels.winograd.model import (
    WinogradTiling,
    choose_winograd,
    tile_sizes,
    winograd_times,
)
from tvm_ios.backend.cpu.kernels.winograd.transform import ERRORS
from tvm_ios.ops.window import Window

WIDE = Core(lanes=16, registers=32, l1_bytes=32 << 10, l2_bytes=1 << 20)


def square(channels: int, size: int, out_channels: int, **changes: object) -> Conv2d:
    """A convolution that keeps the image's size."""
    window = Window(size, size, 3, before=1)
    return replace(Conv2d(1, channels, window, window, (out_channels,)), **changes)


def outputs_of(conv: Conv2d, balance: MachineBalance = TYPICAL) -> int | None:
    tiling = choose_winograd(conv, WIDE, 2, balance)
    return tiling and tiling.outputs


def test_large_tiles_are_chosen_for_large_images() -> None:
    assert outputs_of(square(64, 56, 64)) == 4
    assert outputs_of(square(256, 14, 256)) == 4


def test_small_tiles_are_chosen_where_weights_are_far() -> None:
    assert outputs_of(square(256, 14, 256), MachineBalance(far=13.0, memory=40.0)) == 2


def test_more_weights_are_not_worth_it_where_few_tiles_use_them() -> None:
    assert outputs_of(square(512, 7, 512)) == 2
    assert outputs_of(square(512, 4, 512)) is None


def test_a_long_row_whose_transforms_no_cache_holds_is_computed_directly() -> None:
    def strided(length: int) -> Conv2d:
        columns = Window(2 * length + 1, length, 3, stride=2)
        return Conv2d(1, 512, Window(1, 1, 1), columns, (512,))

    assert outputs_of(strided(250)) == 3
    assert outputs_of(strided(16_000)) is None


def test_few_channels_are_not_worth_the_transforms() -> None:
    assert outputs_of(square(3, 224, 64)) is None


def test_weights_that_take_longer_than_the_products_are_waited_for() -> None:
    """Larger tiles multiply less, and wait for more."""
    core, balance = replace(WIDE, l1_bytes=48 << 10), MachineBalance(far=4.41, memory=9.83)
    assert choose_winograd(square(208, 7, 208), core, 2, balance).outputs == 2


def test_other_convolutions_are_not_computed_by_winograd() -> None:
    good = square(64, 56, 64)
    strided = Window(57, 28, 3, stride=2)
    dilated = Window(58, 54, 3, dilation=2)
    assert outputs_of(replace(good, rows=strided)) is None
    assert outputs_of(replace(good, rows=Window(57, 28, 1, stride=2))) is None
    assert outputs_of(replace(good, rows=dilated)) is None
    assert outputs_of(replace(good, columns=Window(56, 56, 9, before=4))) is None
    assert outputs_of(replace(good, rows=Window(56, 56, 1), columns=Window(56, 56, 1))) is None
    assert outputs_of(replace(good, groups=2)) is None
    assert outputs_of(replace(good, out_channels=(32, 32))) is None


@pytest.mark.parametrize(
    ("taps", "sizes"),
    [
        ((3, 3), (2, 4)),
        ((4, 4), (2, 4)),
        ((1, 7), (2, 4)),
        ((5, 5), (2, 4)),
        ((7, 7), (2,)),
        ((5, 7), (2,)),
    ],
)
def test_tiles_that_round_too_much_are_left_out(taps: tuple[int, int], sizes: tuple[int]) -> None:
    """Both axes add to the error."""
    windows = [Window(28, 28, r, before=r // 2) for r in taps]
    assert tile_sizes(Conv2d(1, 64, *windows, (64,))) == sizes


CORES = {"avx512": WIDE, "avx2": Core(8, 16), "neon": Core(4, 32), "sse": Core(4, 16)}


@pytest.mark.parametrize("workers", [2, 16])
@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_a_choice_fits_the_core_and_can_be_divided(core: Core, workers: int) -> None:
    for shape in ((64, 56, 64), (128, 28, 128), (64, 13, 256)):
        tiling = choose_winograd(square(*shape), core, workers)
        assert tiling == choose_winograd(square(*shape), core, workers)
        assert tiling.registers.mr * tiling.registers.nr < core.registers
        kernel = winograd_kernel(square(*shape), tiling, Layout(core.lanes), core)
        for phase in kernel.phases:
            busiest = -(-phase.num_tiles // workers)
            assert busiest * workers <= 1.3 * phase.num_tiles
        assert len(kernel.phases) == (1 if tiling.fused else 2)


def test_few_strips_share_the_weights_of_a_point() -> None:
    """Those of a chunk exceed the cache."""
    assert choose_winograd(square(160, 14, 320), WIDE, 2).group == 2
    assert choose_winograd(square(128, 28, 128), WIDE, 2).group == 1


def test_large_images_are_not_transformed_as_a_whole() -> None:
    assert choose_winograd(square(64, 56, 64), WIDE, 2).fused


def test_phases_take_the_times_that_are_predicted() -> None:
    conv = square(256, 14, 256)
    tiling = choose_winograd(conv, WIDE, 2)
    times = winograd_times(conv, tiling, WIDE)
    phases = winograd_kernel(conv, tiling, Layout(16), WIDE).phases
    assert [phase.work for phase in phases] == [times.inputs, times.products]


@pytest.mark.parametrize(
    ("stride", "outputs", "taps"), [(s, *key) for s, errors in ERRORS.items() for key in errors]
)
def test_errors_are_those_of_the_kernels(stride: int, outputs: int, taps: int) -> None:
    """Root mean square, along one axis, relative to those of the direct kernel."""
    core, layout = isa_of(NATIVE)
    rows = Window(16, 16, 1)
    columns = Window(47, (47 - taps) // stride + 1, taps, stride)
    conv = Conv2d(1, 48, rows, columns, (32,))
    random = np.random.default_rng(0)
    image = random.standard_normal((1, 48, 16, 47)).astype("float32")
    weights = random.standard_normal((32, 48, 1, taps)).astype("float32")
    exact = sum(
        np.einsum(
            "nchw,kc->nkhw",
            image[..., tap : tap + stride * (columns.out - 1) + 1 : stride].astype("float64"),
            weights[:, :, 0, tap],
        )
        for tap in range(taps)
    )
    tiling = WinogradTiling(outputs, RegisterTile(4, 1), False)
    kernels = [
        (
            conv2d_kernel(conv, layout, layout, core),
            pack_weights(weights, core.lanes, core.lanes, 1),
        ),
        (
            winograd_kernel(conv, tiling, layout, core),
            pack_winograd(weights, conv, tiling, core.lanes),
        ),
    ]
    errors = []
    for kernel, packed in kernels:
        (output,) = run_kernel(kernel, [poisoned(layout, image), packed], NATIVE, 0)
        errors.append(np.sqrt(np.mean((unpack(output, exact.shape) - exact) ** 2)))
    assert errors[1] / errors[0] == pytest.approx(ERRORS[stride][outputs, taps], rel=0.25)
