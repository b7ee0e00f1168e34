# SPDX-License-Identifier: Apache-2.0
"""The register-tiled convolution against SciPy, in every instruction set that runs here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from support.conv2d import BIAS, Case, cases, reference
from support.kernel_module import kernel_module
from support.networks import NATIVE, TARGETS, assert_close, isa_of, poisoned, run_kernel, unpack
from tvm_ios.backend.cpu.core import Core
from tvm_ios.backend.cpu.kernels.conv.conv2d import conv2d_kernel
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.convert import pack_weights_kernel
from tvm_ios.backend.cpu.kernels.kernel import convert_input
from tvm_ios.backend.cpu.kernels.layout import PLAIN, pack_weights
from tvm_ios.backend.cpu.kernels.taps import tap_groups
from tvm_ios.backend.cpu.kernels.tiling import choose_tile
from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.ops.window import Window


def check(case: Case, target: tvm.target.Target, epilogue: Epilogue = BIAS, seed: int = 0) -> None:
    """Run the kernel of ``case`` and compare each of its results."""
    core, layout = isa_of(target)
    random = np.random.default_rng(seed)
    source = PLAIN if case.plain else layout
    draw = lambda *shape: random.standard_normal(shape).astype("float32")  # noqa: E731
    image = draw(case.batch, case.channels, *case.size)
    weights = [draw(k, case.channels // case.groups, *case.kernel) for k in case.out_channels]
    biases = [draw(1, k, 1, 1) for k in case.out_channels]
    expected = [reference(case, image, w) + b for w, b in zip(weights, biases, strict=True)]
    inputs = [
        poisoned(source, image),
        np.concatenate(
            [pack_weights(w, source.block or 1, core.lanes, case.groups) for w in weights]
        ),
        np.concatenate([layout.pack(b) for b in biases], axis=1),
    ]
    if "full" in epilogue.arguments:
        residual = draw(*expected[0].shape)
        expected = [expected[0] + residual]
        inputs.append(poisoned(layout, residual))
    conv = Conv2d(
        case.batch, case.channels, *case.windows(), case.out_channels, case.groups, epilogue
    )
    outputs = run_kernel(conv2d_kernel(conv, source, layout, core), inputs, target, seed)
    for output, values in zip(outputs, expected, strict=True):
        assert_close(unpack(output, values.shape), np.maximum(values, 0).astype("float32"))


CASES = {
    "1x1": Case(kernel=(1, 1), padding=(0, 0, 0, 0)),
    "1x1 of a batch": Case(batch=2, kernel=(1, 1), padding=(0, 0, 0, 0), out_channels=(40,)),
    "1x1 of a plain image": Case(channels=5, kernel=(1, 1), padding=(0, 0, 0, 0), plain=True),
    "1x1, padded": Case(kernel=(1, 1)),
    "1x1, strided": Case(kernel=(1, 1), padding=(0, 0, 0, 0), stride=(2, 2)),
    "3x3 of a batch": Case(batch=2, channels=33),
    "3x3 to few channels": Case(out_channels=(3,)),
    "3x3 of a plain image": Case(channels=3, stride=(2, 2), plain=True),
    "1x7": Case(kernel=(1, 7), padding=(0, 3, 0, 3)),
    "7x1": Case(kernel=(7, 1), padding=(3, 0, 3, 0)),
    "5x5, larger than the image": Case(size=(3, 2), kernel=(5, 5), padding=(2, 2, 2, 2)),
    "7x7, strided": Case(channels=3, size=(17, 19), kernel=(7, 7), stride=(2, 2), plain=True),
    "dilated": Case(dilation=(2, 3), padding=(2, 3, 2, 3)),
    "asymmetric padding": Case(padding=(0, 2, 1, 0), stride=(2, 1)),
    "wide row": Case(channels=4, size=(3, 70), plain=True),
    "1x19, its taps in groups": Case(
        channels=9, size=(3, 23), kernel=(1, 19), padding=(0, 9, 0, 9), dilation=(1, 2)
    ),
    "1x140, its groups of taps in a loop": Case(
        channels=3, size=(2, 400), out_channels=(20,), kernel=(1, 140), padding=(0, 0, 0, 0)
    ),
    "1x140, the same with padding": Case(
        channels=2,
        size=(1, 390),
        out_channels=(20,),
        kernel=(1, 140),
        padding=(0, 4, 0, 4),
        stride=(1, 3),
        dilation=(1, 2),
        plain=True,
    ),
    "a narrower chunk of channels": Case(out_channels=(88,), size=(5, 9)),
    "groups": Case(channels=64, out_channels=(64,), groups=2),
    "groups of a plain image": Case(channels=6, out_channels=(32,), groups=2, plain=True),
    "two results": Case(out_channels=(10, 24)),
    "three results, pointwise": Case(out_channels=(5, 16, 33), kernel=(1, 1), padding=(0, 0, 0, 0)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions(case: Case, target: tvm.target.Target) -> None:
    check(case, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pointwise", [True, False])
def test_a_residual_is_added_in_registers(target: tvm.target.Target, pointwise: bool) -> None:
    steps = (
        Step("add", (Operand("value", 0), Operand("argument", 0))),
        Step("add", (Operand("argument", 1), Operand("value", 1))),
        Step("relu", (Operand("value", 2),)),
    )
    case = Case(batch=2, out_channels=(20,))
    if pointwise:
        case = replace(case, kernel=(1, 1), padding=(0, 0, 0, 0))
    check(case, target, Epilogue(steps, ("channel", "full")))


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(cases())
def test_convolutions_of_any_geometry(case: Case) -> None:
    check(case, NATIVE)


@pytest.mark.parametrize("target", TARGETS)
def test_weights_known_at_run_time_are_packed_in_front(target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    case = Case(channels=10, out_channels=(21,))
    random = np.random.default_rng(0)
    image = random.standard_normal((1, 10, *case.size)).astype("float32")
    weights = random.standard_normal((21, 10, 3, 3)).astype("float32")
    conv = Conv2d(1, 10, *case.windows(), (21,))
    packing = pack_weights_kernel(weights.shape, layout.block, core.lanes)
    kernel = convert_input(conv2d_kernel(conv, layout, layout, core), 1, packing)
    assert len(kernel.phases) == 2
    (output,) = run_kernel(kernel, [poisoned(layout, image), weights], target)
    expected = reference(case, image, weights)
    assert_close(unpack(output, expected.shape), expected.astype("float32"))


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("blocks", [5, 7, 11])
def test_half_of_the_tiles_is_half_of_the_work(blocks: int, size: int) -> None:
    core, layout = isa_of(NATIVE)
    case = Case(
        channels=core.lanes,
        size=(14, 14),
        out_channels=(blocks * core.lanes,),
        kernel=(size, size),
        padding=(size // 2,) * 4,
    )
    kernel = conv2d_kernel(
        Conv2d(1, core.lanes, *case.windows(), case.out_channels), layout, layout, core
    )
    function = kernel_module({"f": (kernel, 0)}, NATIVE)["f"]
    inputs = [tvm.runtime.tensor(np.ones(s.shape, "float32")) for s in kernel.inputs]
    output = tvm.runtime.tensor(np.full(kernel.outputs[0].shape, np.nan, "float32"))
    tiles = kernel.phases[0].num_tiles
    function(*inputs, output, 0, tiles // 2)
    assert 0.45 < np.isfinite(output.numpy()).mean() < 0.55


@given(
    st.sampled_from([Core(16, 32), Core(8, 16), Core(4, 32), Core(4, 16)]),
    st.integers(1, 200),
    st.integers(1, 40),
    st.builds(Window, st.just(1), st.just(1), st.integers(1, 23), st.integers(1, 3)),
    st.integers(0, 1 << 20),
    st.booleans(),
)
@settings(deadline=None, derandomize=True, database=None)
def test_tiles_fit_the_registers_and_what_they_cover(
    core: Core, columns: int, blocks: int, window: Window, block_bytes: int, equal: bool
) -> None:
    tile = choose_tile(core, columns, blocks, window=window, block_bytes=block_bytes, equal=equal)
    assert 1 <= tile.mr <= columns
    assert 1 <= tile.nr <= blocks
    assert not equal or blocks % tile.nr == 0
    groups = tap_groups(core, window)
    assert [tap for group in groups for tap in group] == [*range(window.kernel)]
    weights = tile.nr * len(groups[0])
    assert tile.mr * tile.nr + weights < core.registers


def test_the_weights_of_a_tile_stay_in_the_second_cache() -> None:
    core = Core(16, 32, l1_bytes=32 << 10, l2_bytes=1 << 20)
    near, far = (choose_tile(core, 196, 64, block_bytes=size) for size in (1 << 10, 1 << 19))
    assert far.nr << 19 <= core.l2_bytes
    assert far.nr < near.nr
    assert far.mr > near.mr
