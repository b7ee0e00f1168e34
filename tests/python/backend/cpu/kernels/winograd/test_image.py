# SPDX-License-Identifier: Apache-2.0
"""Convolutions of images by large strides, which Winograd's algorithm computes on folded images."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import (
    NATIVE,
    TARGETS,
    assert_close,
    check_scheduled,
    constant,
    conv,
    isa_of,
    relax_module,
    run_kernel,
    unpack,
)
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.kernels.conv.fold import fold_weights, folded, folds
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.layout import PLAIN
from tvm_ios.backend.cpu.kernels.tiling import RegisterTile
from tvm_ios.backend.cpu.kernels.winograd.convolution import pack_winograd, winograd_kernel
from tvm_ios.backend.cpu.kernels.winograd.model import (
    WinogradTiling,
    tile_sizes,
    winograd_tilings,
)
from tvm_ios.backend.cpu.rules import LoweringConfig
from tvm_ios.backend.cpu.rules.implement import implement
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.extract import extract
from tvm_ios.ops.window import Window
from tvm_ios.options import Options
from tvm_ios.rewrite.prepare import prepare


@dataclass(frozen=True)
class Case:
    """A convolution of an image; ``padding`` is that in front of and behind each axis."""

    size: tuple[int, int]
    taps: tuple[int, int]
    padding: tuple[int, int]
    stride: int = 2
    channels: int = 3
    batch: int = 1

    @property
    def conv(self) -> Conv2d:
        before, after = self.padding
        windows = [
            Window(size, (size + before + after - taps) // self.stride + 1, taps, self.stride)
            for size, taps in zip(self.size, self.taps, strict=True)
        ]
        rows, columns = (replace(window, before=before) for window in windows)
        return Conv2d(self.batch, self.channels, rows, columns, (20,))

    @property
    def image(self) -> np.ndarray:
        shape = (self.batch, self.channels, *self.size)
        return np.random.default_rng(0).standard_normal(shape).astype("float32")

    @property
    def weights(self) -> np.ndarray:
        shape = (20, self.channels, *self.taps)
        return np.random.default_rng(1).standard_normal(shape).astype("float32")


def convolve(image: np.ndarray, weights: np.ndarray, padding: tuple[int, int]) -> np.ndarray:
    """A convolution of stride 1 in float64, tap by tap."""
    padded = np.pad(image.astype("float64"), ((0, 0), (0, 0), padding, padding))
    (high, wide), (height, width) = weights.shape[2:], padded.shape[2:]
    return sum(
        np.einsum(
            "nchw,kc->nkhw",
            padded[:, :, r : height - high + 1 + r, s : width - wide + 1 + s],
            weights[:, :, r, s],
        )
        for r in range(high)
        for s in range(wide)
    )


CASES = {
    "seven, odd padding": Case((22, 26), (7, 7), (3, 3)),
    "seven, no padding": Case((29, 21), (7, 7), (0, 0), batch=4),
    "five, even padding": Case((15, 14), (5, 5), (2, 2), channels=4),
    "eleven, stride of four": Case((31, 29), (11, 11), (2, 2), stride=4),
    "seven by five, one channel": Case((17, 18), (7, 5), (2, 1), channels=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_squares_of_pixels_become_channels(case: Case) -> None:
    shape, stride = folded(case.conv), case.stride
    high, wide = shape.rows.size, shape.columns.size
    behind = [(0, stride * n - size) for n, size in zip((high, wide), case.size, strict=True)]
    whole = np.pad(case.image, ((0, 0), (0, 0), *behind))
    split = whole.reshape(case.batch, case.channels, high, stride, wide, stride)
    image = split.transpose(0, 3, 1, 5, 2, 4).reshape(case.batch, -1, high, wide)
    weights = fold_weights(case.weights, case.conv)
    assert weights.shape[2:] == (shape.rows.kernel, shape.columns.kernel)
    before = shape.rows.before
    result = convolve(image, weights, (before, max(weights.shape)))
    rows, columns = case.conv.rows.out, case.conv.columns.out
    expected = convolve(case.image, case.weights, case.padding)[:, :, ::stride, ::stride]
    np.testing.assert_allclose(result[:, :, :rows, :columns], expected, atol=1e-9)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions(case: Case, outputs: int, target: tvm.target.Target) -> None:
    """Computed in ranges of units in random order: each begins with what it folds itself."""
    core, _ = isa_of(target)
    tiling = WinogradTiling(outputs, RegisterTile(2, 2), fused=True)
    kernel = winograd_kernel(case.conv, tiling, PLAIN, core)
    packed = pack_winograd(case.weights, case.conv, tiling, core.lanes)
    (result,) = run_kernel(kernel, [case.image, packed], target)
    expected = convolve(case.image, case.weights, case.padding)[
        :, :, :: case.stride, :: case.stride
    ]
    assert_close(unpack(result, expected.shape), expected.astype("float32"), 1e-5)


def test_every_tiling_that_may_be_chosen() -> None:
    case, (core, _) = CASES["seven, odd padding"], isa_of(NATIVE)
    expected = convolve(case.image, case.weights, case.padding)[:, :, ::2, ::2]
    for outputs in tile_sizes(case.conv):
        for tiling in winograd_tilings(case.conv, outputs, core):
            kernel = winograd_kernel(case.conv, tiling, PLAIN, core)
            packed = pack_winograd(case.weights, case.conv, tiling, core.lanes)
            (result,) = run_kernel(kernel, [case.image, packed], NATIVE)
            assert_close(unpack(result, expected.shape), expected.astype("float32"), 1e-5)


def test_what_does_not_fold() -> None:
    whole = CASES["seven, odd padding"].conv
    assert folds(whole)
    assert not folds(replace(whole, channels=5))  # which fill vectors well enough
    assert not folds(replace(whole, rows=replace(whole.rows, stride=1)))
    assert not folds(replace(whole, rows=replace(whole.rows, dilation=2)))
    assert not folds(Case((21, 21), (7, 7), (3, 3), stride=3).conv)
    assert not folds(replace(whole, rows=replace(whole.rows, kernel=2)))  # squares that stay apart
    assert not folds(replace(whole, channels=4, groups=2))
    assert not folds(Case((21, 4000), (7, 7), (3, 3)).conv)  # whose rows would fill a stack


IMAGE = (1, 3, 65, 67)


def stem(emit, x):
    first = emit(conv(x, 40, 7, strides=2, padding=3))
    return emit(relax.op.nn.relu(emit(relax.op.add(first, constant(1, 40, 1, 1)))))


def variants(mod: tvm.IRModule, **settings: object) -> list[str | None]:
    """The kernels of the convolutions."""
    prepared = prepare(mod)
    results = relax.analysis.free_vars(prepared["main"].body.body)
    config = LoweringConfig(core_of(NATIVE), **settings)
    lowered = implement(extract(prepared), results, config)
    pairs = zip(lowered.graph.operators, lowered.implementations, strict=True)
    return [i.kernel.variant for op, i in pairs if op.kind == "conv2d" and i is not None]


def test_the_first_convolution_of_a_network() -> None:
    mod = relax_module(stem, IMAGE)
    assert variants(mod) == ["winograd4"]
    assert variants(mod, winograd=False) == ["direct"]
    assert variants(mod, precision="bf16") == ["bf16"]
    check_scheduled(mod, relative=1e-5)
    check_scheduled(mod, relative=1e-5, winograd=False)


def test_an_image_that_a_convolution_computed_is_not_folded() -> None:
    """Its channels lie in blocks."""
    mod = relax_module(lambda emit, x: stem(emit, emit(conv(x, 3))), IMAGE)
    assert variants(mod) == [None, None]
    check_scheduled(mod, relative=1e-5)


def test_an_image_that_several_convolutions_read() -> None:
    def body(emit, x):
        return emit(relax.op.concat([stem(emit, x), stem(emit, x)], axis=1))

    check_scheduled(relax_module(body, IMAGE), relative=1e-5)


def test_a_pooling_shares_its_row_strips() -> None:
    """Those of the pooling overlap: rows of tiles are computed for both."""

    def body(emit, x):
        first = emit(conv(x, 64, 7, strides=2, padding=3))
        x = emit(relax.op.nn.max_pool2d(first, (3, 3), (2, 2), padding=1))
        return emit(conv(x, 16, 1, padding=0, seed=3))

    size = 16 + 2 * int((2 * core_of(NATIVE).l2_bytes / (4 * 64)) ** 0.5)
    mod = relax_module(body, (1, 3, size, size - 1))
    scheduler = Scheduler.prepare(mod, NATIVE, options=Options())
    stage, _ = scheduler.unsearched().stages
    assert (len(stage.groups[0]), stage.partitioning) == (2, "strips")
    assert variants(mod)[0] == "winograd4"
    check_scheduled(mod, relative=1e-5, search=False)


def test_weights_known_at_run_time_are_not_folded() -> None:
    def body(emit, x, weights):
        return emit(relax.op.nn.conv2d(x, weights, strides=2, padding=3))

    mod = relax_module(body, IMAGE, (40, 3, 7, 7))
    assert variants(mod) == [None]
    check_scheduled(mod, relative=1e-5)
