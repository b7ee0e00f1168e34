# SPDX-License-Identifier: Apache-2.0
"""Winograd's convolution against a direct one in float64; where it is chosen, and where not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from support.networks import (
    NATIVE,
    TARGETS,
    assert_close,
    check_scheduled,
    constant,
    conv,
    isa_of,
    merging,
    poisoned,
    relax_module,
    run_kernel,
    unpack,
)
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.tiling import RegisterTile
from tvm_ios.backend.cpu.kernels.winograd.convolution import pack_winograd, winograd_kernel
from tvm_ios.backend.cpu.kernels.winograd.model import (
    WinogradTiling,
    tile_sizes,
    winograd_tilings,
)
from tvm_ios.backend.cpu.replace.table import RULES
from tvm_ios.backend.cpu.rules import LoweringConfig
from tvm_ios.backend.cpu.rules.implement import implement
from tvm_ios.graph.extract import extract
from tvm_ios.lowering.implementation import LoweredGraph
from tvm_ios.lowering.replacements.find import find_replacements
from tvm_ios.ops.epilogue import NOTHING, Epilogue, Operand, Step
from tvm_ios.ops.window import Window
from tvm_ios.rewrite.prepare import prepare

RELU = Step("relu", (Operand("value", 1),))
BIAS = Epilogue((Step("add", (Operand("value", 0), Operand("argument", 0))), RELU), ("channel",))
RESIDUAL = Epilogue(
    (
        Step("add", (Operand("argument", 1), Operand("argument", 0))),
        Step("add", (Operand("value", 0), Operand("value", 1))),
    ),
    ("channel", "full"),
)


@dataclass(frozen=True)
class Case:
    """A convolution; ``padding`` is top, left, bottom, right."""

    batch: int = 1
    channels: int = 20
    size: tuple[int, int] = (9, 11)
    out_channels: int = 24
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    epilogue: Epilogue = NOTHING
    taps: tuple[int, int] = (3, 3)
    stride: int = 1

    def conv(self) -> Conv2d:
        windows = []
        for axis, size in enumerate(self.size):
            before, after = self.padding[axis], self.padding[axis + 2]
            out = (size + before + after - self.taps[axis]) // self.stride + 1
            windows.append(Window(size, out, self.taps[axis], self.stride, before=before))
        outputs = (self.out_channels,)
        return Conv2d(self.batch, self.channels, *windows, outputs, epilogue=self.epilogue)


def reference(case: Case, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The convolution in float64, tap by tap."""
    top, left, bottom, right = case.padding
    padded = np.pad(image.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    high, wide = case.taps
    height, width = padded.shape[2] - high + 1, padded.shape[3] - wide + 1
    every = sum(
        np.einsum("nchw,kc->nkhw", padded[:, :, r : r + height, s : s + width], weights[:, :, r, s])
        for r in range(high)
        for s in range(wide)
    )
    return every[:, :, :: case.stride, :: case.stride]


def compute(
    case: Case, tiling: WinogradTiling, target: tvm.target.Target, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel computes, and what it should."""
    core, layout = isa_of(target)
    random = np.random.default_rng(seed)
    image = random.standard_normal((case.batch, case.channels, *case.size)).astype("float32")
    shape = (case.out_channels, case.channels, *case.taps)
    weights = random.standard_normal(shape).astype("float32")
    expected = reference(case, image, weights)
    inputs = [poisoned(layout, image), pack_winograd(weights, case.conv(), tiling, core.lanes)]
    shapes = {"channel": (1, case.out_channels, 1, 1), "full": expected.shape}
    for kind in case.epilogue.arguments:
        argument = random.standard_normal(shapes[kind]).astype("float32")
        inputs.append(poisoned(layout, argument))
        expected = expected + argument
    if RELU in case.epilogue.steps:
        expected = np.maximum(expected, 0)
    (output,) = run_kernel(winograd_kernel(case.conv(), tiling, layout, core), inputs, target, seed)
    return unpack(output, expected.shape), expected


def check(case: Case, tiling: WinogradTiling, target: tvm.target.Target, seed: int = 0) -> None:
    actual, expected = compute(case, tiling, target, seed)
    assert_close(actual, expected.astype("float32"), 1e-5)


CASES = {
    "bias of a batch": (Case(batch=3, channels=33, epilogue=BIAS), RegisterTile(4, 2), False),
    "residual, whole tiles": (
        Case(channels=16, size=(8, 12), out_channels=40, epilogue=RESIDUAL),
        RegisterTile(3, 2),
        True,
    ),
    "asymmetric padding": (Case(size=(6, 13), padding=(0, 2, 1, 0)), RegisterTile(2, 1), False),
    "no padding": (Case(channels=5, size=(7, 14), padding=(0, 0, 0, 0)), RegisterTile(5, 2), True),
    "rows of seven": (
        Case(channels=17, size=(5, 17), padding=(0, 3, 0, 3), epilogue=BIAS, taps=(1, 7)),
        RegisterTile(4, 2),
        False,
    ),
    "columns of seven": (
        Case(size=(17, 6), padding=(3, 0, 3, 0), taps=(7, 1)),
        RegisterTile(4, 1),
        True,
    ),
    "rows of three": (
        Case(size=(3, 8), padding=(0, 1, 0, 1), taps=(1, 3)),
        RegisterTile(2, 2),
        True,
    ),
    "five by five": (
        Case(size=(11, 9), padding=(2, 2, 2, 2), epilogue=RESIDUAL, taps=(5, 5)),
        RegisterTile(3, 2),
        False,
    ),
    "four by four": (
        Case(size=(10, 13), padding=(2, 1, 1, 2), epilogue=BIAS, taps=(4, 4)),
        RegisterTile(4, 2),
        False,
    ),
    "four by three": (
        Case(size=(9, 7), padding=(0, 1, 0, 1), taps=(4, 3)),
        RegisterTile(3, 1),
        True,
    ),
    "stride of two": (
        Case(channels=17, size=(11, 16), padding=(1, 1, 0, 1), epilogue=RESIDUAL, stride=2),
        RegisterTile(4, 2),
        False,
    ),
    "stride of two, no padding": (
        Case(batch=2, size=(13, 9), padding=(0, 0, 0, 0), epilogue=BIAS, stride=2),
        RegisterTile(3, 1),
        True,
    ),
    "three by five": (
        Case(batch=2, size=(6, 9), padding=(1, 0, 1, 2), taps=(3, 5)),
        RegisterTile(3, 1),
        False,
    ),
}
"""A convolution, the tile of registers, and whether a worker takes strips from end to end."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("larger", [False, True], ids=["small", "large"])
@pytest.mark.parametrize(("case", "registers", "fused"), CASES.values(), ids=CASES)
def test_convolutions(
    case: Case, registers: RegisterTile, fused: bool, larger: bool, target: tvm.target.Target
) -> None:
    outputs = tile_sizes(case.conv())[-1 if larger else 0]
    check(case, WinogradTiling(outputs, registers, fused), target)


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("case", [CASES["bias of a batch"][0], CASES["five by five"][0]])
def test_groups_of_strips(case: Case, group: int) -> None:
    """The last group may have fewer strips, and the last strip fewer tiles."""
    tiling = WinogradTiling(tile_sizes(case.conv())[-1], RegisterTile(4, 2), False, group)
    check(case, tiling, NATIVE)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, WinogradTiling]:
    """Small convolutions of any size and padding, in any tiling."""
    padding = draw(st.tuples(*[st.integers(0, 2)] * 4))
    stride = draw(st.integers(1, 2))
    sizes = (1, 3, 4, 5, 7)
    dense = [(r, s) for r in sizes for s in sizes if r * s > 1]
    taps = draw(st.sampled_from(dense if stride == 1 else [(3, 3)]))
    smallest = [max(1, taps[a] - padding[a] - padding[a + 2]) for a in range(2)]
    case = Case(
        batch=draw(st.integers(1, 3)),
        channels=draw(st.integers(1, 36)),
        size=tuple(low + draw(st.integers(0, 13)) for low in smallest),
        out_channels=draw(st.integers(1, 70)),
        padding=padding,
        epilogue=draw(st.sampled_from([NOTHING, BIAS, RESIDUAL])),
        taps=taps,
        stride=stride,
    )
    outputs = draw(st.sampled_from(tile_sizes(case.conv())))
    return case, draw(st.sampled_from(winograd_tilings(case.conv(), outputs, core_of(NATIVE))))


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(cases())
def test_convolutions_of_any_size_in_any_tiling(drawn: tuple[Case, WinogradTiling]) -> None:
    check(*drawn, NATIVE)


@pytest.mark.parametrize(
    ("taps", "outputs", "bound"),
    [
        ((3, 3), 2, 1.5e-6),
        ((3, 3), 4, 5e-6),
        ((1, 7), 2, 5e-6),
        ((7, 1), 4, 1.5e-5),
        ((4, 4), 2, 2e-6),
        ((4, 4), 4, 8e-6),
        ((5, 5), 2, 5e-6),
        ((5, 5), 4, 2e-5),
    ],
)
def test_the_error_is_within_its_bound(taps: tuple[int, int], outputs: int, bound: float) -> None:
    """Relative to the largest output, of a sum over 256 channels."""
    padding = (taps[0] // 2, taps[1] // 2) * 2
    case = Case(channels=256, size=(14, 14), out_channels=16, padding=padding, taps=taps)
    actual, expected = compute(case, WinogradTiling(outputs, RegisterTile(4, 1), False), NATIVE)
    assert np.abs(actual - expected).max() < bound * np.abs(expected).max()


def convolve(
    image: np.ndarray, weights: np.ndarray, outputs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By tiles of ``outputs``, in float64, and the same of absolute values."""
    core, layout = isa_of(NATIVE)
    (channels, *size), taps = image.shape[1:], weights.shape[2:]
    padding = (taps[0] // 2, taps[1] // 2) * 2
    case = Case(1, channels, tuple(size), len(weights), padding, taps=taps)
    tiling = WinogradTiling(outputs, RegisterTile(2, 1), False)
    inputs = [poisoned(layout, image), pack_winograd(weights, case.conv(), tiling, core.lanes)]
    (output,) = run_kernel(winograd_kernel(case.conv(), tiling, layout, core), inputs, NATIVE, 0)
    expected = reference(case, image, weights)
    return unpack(output, expected.shape), expected, reference(case, abs(image), abs(weights))


def by_tile(values: np.ndarray, taps: tuple[int, int], outputs: int) -> np.ndarray:
    """The largest of what each tile reads, for every output of the tile."""
    _, _, height, width = values.shape
    high, wide = (outputs if r > 1 else 1 for r in taps)
    pads = [(r // 2, m + r // 2 - 1) for r, m in zip(taps, (high, wide), strict=True)]
    padded = np.pad(values, ((0, 0), (0, 0), *pads))
    result = np.zeros((height, width))
    for y in range(0, height, high):
        for x in range(0, width, wide):
            read = padded[:, :, y : y + high + taps[0] - 1, x : x + wide + taps[1] - 1]
            result[y : y + high, x : x + wide] = read.max()
    return result


WINDOWS = [((3, 3), 2), ((3, 3), 4), ((1, 7), 4), ((7, 1), 2), ((5, 5), 4), ((5, 3), 4)]
"""The taps of a window, and the outputs of a tile."""


@pytest.mark.parametrize(("taps", "outputs"), WINDOWS)
@pytest.mark.parametrize(
    ("data", "filters"), [(1e30, 1e-3), (1e-30, 1e3), (1e3, 1e30), (1e3, 1e-30)]
)
def test_extreme_magnitudes_lose_nothing(
    data: float, filters: float, taps: tuple[int, int], outputs: int
) -> None:
    random = np.random.default_rng(0)
    image = (data * random.standard_normal((1, 16, 10, 10))).astype("float32")
    weights = (filters * random.standard_normal((16, 16, *taps))).astype("float32")
    actual, expected, scale = convolve(image, weights, outputs)
    assert np.all(abs(actual - expected) <= 5e-6 * scale.max())


@pytest.mark.parametrize(("taps", "outputs"), WINDOWS)
def test_a_large_value_costs_its_tiles_alone(taps: tuple[int, int], outputs: int) -> None:
    """Errors are relative to the largest value that a tile reads, not to an output's own window."""
    random = np.random.default_rng(0)
    image = random.standard_normal((1, 16, 13, 15)).astype("float32")
    image[0, 3, 6, 7] = 1e6
    weights = random.standard_normal((16, 16, *taps)).astype("float32")
    actual, expected, _ = convolve(image, weights, outputs)
    largest = by_tile(abs(image), taps, outputs)
    assert np.all(abs(actual - expected)[0] <= 5e-6 * abs(weights).sum((1, 2, 3)).max() * largest)
    # Of each axis, the outputs of as many tiles as may read one input.
    reached = np.prod([outputs * -(-(outputs + r - 1) // outputs) if r > 1 else 1 for r in taps])
    assert np.count_nonzero(largest > 10) <= reached


@pytest.mark.parametrize(("taps", "outputs"), WINDOWS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_what_is_not_finite_stays_in_the_tiles_that_read_it(
    value: float, taps: tuple[int, int], outputs: int
) -> None:
    """In these tiles outputs may be NaN or infinite where a direct sum is not."""
    random = np.random.default_rng(0)
    image = random.standard_normal((1, 16, 13, 15)).astype("float32")
    image[0, 3, 6, 7] = value
    weights = random.standard_normal((16, 16, *taps)).astype("float32")
    with np.errstate(invalid="ignore"):
        actual, expected, _ = convolve(image, weights, outputs)
    finite = np.nan_to_num(abs(image), nan=np.inf, posinf=np.inf)
    reached = by_tile(np.where(finite > 1e37, 1.0, 0.0), taps, outputs) > 0
    assert_close(actual[:, :, ~reached], expected[:, :, ~reached].astype("float32"), 1e-5)
    window = np.zeros((13, 15), bool)
    high, wide = taps[0] // 2, taps[1] // 2
    window[6 - high : 7 + high, 7 - wide : 8 + wide] = True
    assert not np.isfinite(actual[:, :, window]).any() or value == 3e38


def network(emit, x):
    """A pool, which blocks its result, and two convolutions of it."""
    x = emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1))
    left = emit(relax.op.nn.relu(emit(relax.op.add(emit(conv(x, 40)), constant(1, 40, 1, 1)))))
    right = emit(relax.op.nn.relu(emit(relax.op.add(emit(conv(x, 20)), constant(1, 20, 1, 1)))))
    return emit(relax.op.concat([left, right], axis=1))


IMAGE = (2, 36, 17, 19)


def lower(mod: tvm.IRModule, winograd: bool = True) -> LoweredGraph:
    prepared = prepare(mod)
    results = relax.analysis.free_vars(prepared["main"].body.body)
    return implement(extract(prepared), results, LoweringConfig(core_of(NATIVE), winograd))


def kernels_of(lowered: LoweredGraph) -> set[str]:
    """The kernels of the convolutions."""
    pairs = zip(lowered.graph.operators, lowered.implementations, strict=True)
    return {implementation.kernel.name for op, implementation in pairs if op.kind == "conv2d"}


def test_the_rule_chooses_winograd_unless_it_is_switched_off() -> None:
    mod = relax_module(network, IMAGE)
    assert kernels_of(lower(mod)) == {"conv2d_winograd"}
    assert kernels_of(lower(mod, winograd=False)) == {"conv2d"}


def test_a_row_major_image_is_convolved_directly() -> None:
    mod = relax_module(lambda emit, x: emit(conv(x, 64)), IMAGE)
    assert kernels_of(lower(mod)) == {"conv2d"}


def test_weights_known_at_run_time_are_not_transformed() -> None:
    def body(emit, x, weights):
        x = emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1))
        return emit(relax.op.nn.conv2d(x, weights, padding=1))

    mod = relax_module(body, IMAGE, (64, 36, 3, 3))
    assert kernels_of(lower(mod)) == {"conv2d"}


@pytest.mark.parametrize("winograd", [True, False])
def test_a_network_computes_the_same(winograd: bool) -> None:
    check_scheduled(relax_module(network, IMAGE), relative=1e-5, winograd=winograd)


def test_convolutions_by_winograd_are_still_merged() -> None:
    mod = relax_module(network, IMAGE)
    lowered = lower(mod)
    pairs = zip(lowered.graph.operators, find_replacements(lowered, RULES).classes, strict=True)
    assert {c for op, c in pairs if op.kind == "conv2d"} == {0}
    check_scheduled(mod, cost_model=merging, relative=1e-5)
