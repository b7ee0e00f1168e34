# SPDX-License-Identifier: Apache-2.0
"""Convolutions of images by large strides, on a folded image by Winograd's algorithm."""

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
from tvm_ios.backend.cpu.kernels.conv2d_shape import Conv2d
from tvm_ios.backend.cpu.kernels.fold import fold_kernel, fold_weights, folded, folds
from tvm_ios.backend.cpu.kernels.kernel import convert_input
from tvm_ios.backend.cpu.kernels.tiling import RegisterTile
from tvm_ios.backend.cpu.kernels.winograd import pack_winograd, winograd_kernel
from tvm_ios.backend.cpu.kernels.winograd_model import WinogradTiling, tile_sizes
from tvm_ios.backend.cpu.rules import LoweringConfig
from tvm_ios.backend.cpu.rules.implement import implement
from tvm_ios.graph.extract import extract
from tvm_ios.graph.prepare import prepare
from tvm_ios.target import core_of
from tvm_ios.tir.window import Window


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

    def expected(self) -> np.ndarray:
        """In float64, tap by tap."""
        padded = np.pad(self.image.astype("float64"), ((0, 0), (0, 0), self.padding, self.padding))
        (high, wide), (height, width) = self.taps, padded.shape[2:]
        every = sum(
            np.einsum(
                "nchw,kc->nkhw",
                padded[:, :, r : height - high + 1 + r, s : width - wide + 1 + s],
                self.weights[:, :, r, s],
            )
            for r in range(high)
            for s in range(wide)
        )
        return every[:, :, :: self.stride, :: self.stride]


CASES = {
    "seven, odd padding": Case((22, 26), (7, 7), (3, 3)),
    "seven, no padding": Case((21, 27), (7, 7), (0, 0), batch=2),
    "five, even padding": Case((15, 14), (5, 5), (2, 2), channels=4),
    "eleven, stride of four": Case((31, 29), (11, 11), (2, 2), stride=4),
    "seven by five, one channel": Case((17, 18), (7, 5), (2, 1), channels=1),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_square_of_pixels_becomes_channels(case: Case, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    (result,) = run_kernel(fold_kernel(case.conv, layout, core), [case.image], target)
    shape, stride = folded(case.conv), case.stride
    high, wide = shape.rows.size, shape.columns.size
    behind = [(0, stride * n - size) for n, size in zip((high, wide), case.size, strict=True)]
    whole = np.pad(case.image, ((0, 0), (0, 0), *behind))
    split = whole.reshape(case.batch, case.channels, high, stride, wide, stride)
    expected = split.transpose(0, 3, 1, 5, 2, 4).reshape(case.batch, -1, high, wide)
    np.testing.assert_array_equal(unpack(result, expected.shape), expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("larger", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions(case: Case, larger: bool, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    outputs = tile_sizes(case.conv)[-1 if larger else 0]
    tiling = WinogradTiling(outputs, RegisterTile(2, 2), fused=larger)
    shape = folded(case.conv)
    kernel = convert_input(
        winograd_kernel(shape, tiling, layout, core), 0, fold_kernel(case.conv, layout, core)
    )
    packed = pack_winograd(fold_weights(case.weights, case.conv), shape, tiling, core.lanes)
    (result,) = run_kernel(kernel, [case.image, packed], target)
    expected = case.expected()
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


def test_weights_known_at_run_time_are_not_folded() -> None:
    def body(emit, x, weights):
        return emit(relax.op.nn.conv2d(x, weights, strides=2, padding=3))

    mod = relax_module(body, IMAGE, (40, 3, 7, 7))
    assert variants(mod) == [None]
    check_scheduled(mod, relative=1e-5)
