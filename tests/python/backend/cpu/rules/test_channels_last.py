# SPDX-License-Identifier: Apache-2.0
"""Permutations between feature maps and rows of channels, with what reads and writes both."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.networks import NATIVE, check_scheduled, constant, conv, isa_of, relax_module
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options

op = relax.op
LANES = isa_of(NATIVE)[0].lanes


def block(emit, x, channels: int, seed: int = 0):
    """A block of ConvNeXt."""
    wide = op.nn.conv2d(x, constant(channels, 1, 3, 3, seed=seed), padding=1, groups=channels)
    rows = emit(op.permute_dims(emit(wide), (0, 2, 3, 1)))
    gamma, beta = constant(channels, seed=1), constant(channels, seed=2)
    rows = emit(op.nn.layer_norm(rows, gamma, beta, axes=[-1]))
    rows = emit(op.nn.gelu(emit(op.matmul(rows, constant(channels, 40, seed=3)))))
    rows = emit(op.matmul(rows, constant(40, channels, seed=4)))
    return emit(op.add(emit(op.permute_dims(rows, (0, 3, 1, 2))), x))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("channels", [2 * LANES, LANES, 2 * LANES + 3])
def test_there_and_back(channels: int, batch: int) -> None:
    def body(emit, x):
        x = emit(conv(x, channels, 3, padding=1))
        return emit(conv(block(emit, block(emit, x, channels), channels, 7), 20, 1, seed=9))

    mod = relax_module(body, (batch, 3, 7, 9))
    check_scheduled(mod)
    if channels % LANES:
        return
    scheduler = Scheduler.prepare(mod, NATIVE, options=Options(winograd=False))
    kernels = [i.kernel for i in scheduler.stage_builder.lowered.implementations]
    inside = [k for k in kernels if k.name in ("copy", "map", "depthwise")]
    assert len(inside) >= 6
    assert all(len(kernel.phases) == 1 for kernel in inside)  # no conversion comes first


def test_there_and_back_of_any_batch() -> None:
    def body(emit, x):
        x = emit(conv(x, 2 * LANES, 3, padding=1))
        return emit(conv(block(emit, x, 2 * LANES), 20, 1, seed=9))

    batch = tvm.tirx.Var("n", "int64")
    mod = relax_module(body, relax.TensorType((batch, 3, 7, 9), "float32"))
    model = tvm_ios.compile(mod, search=False, threads=2)
    for size in (1, 2, 5):
        shape = (size, 3, 7, 9)
        x = np.random.default_rng(size).standard_normal(shape).astype("float32")
        fixed = tvm_ios.compile(relax_module(body, shape), search=False, threads=1)
        np.testing.assert_allclose(model(x), fixed(x), rtol=1e-4, atol=1e-4)


def test_rows_of_a_map_of_one_channel() -> None:
    """The permutation is that of a map whose channels are these columns."""

    def body(emit, x):
        x = emit(conv(emit(conv(x, LANES, 1)), 1, 1, seed=1))
        return emit(op.negative(emit(op.permute_dims(x, (2, 1, 0, 3)))))

    check_scheduled(relax_module(body, (1, 3, 2 * LANES, 2 * LANES)))


@pytest.mark.parametrize("axes", [(0, 2, 3, 1), (0, 3, 2, 1), (0, 1, 3, 2), (1, 0, 2, 3)])
def test_other_permutations_of_a_blocked_map(axes: tuple[int, ...]) -> None:
    def body(emit, x):
        moved = emit(op.permute_dims(emit(conv(x, LANES, 1)), axes))
        shape = [int(extent) for extent in moved.ty.shape.values]
        return emit(op.add(moved, constant(*shape[1:], seed=5)))

    check_scheduled(relax_module(body, (1, 3, 7, 9)))


@pytest.mark.parametrize("axes", [(0, 3, 1, 2), (0, 3, 2, 1), (0, 2, 1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize(
    "shape", [(2, 5, 7, 2 * LANES), (1, 1, 9, LANES), (1, LANES, LANES, LANES)]
)
def test_other_permutations_to_a_map(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Also of sizes by which the axes cannot be told from each other."""

    def body(emit, x):
        moved = op.nn.relu(emit(op.permute_dims(emit(op.negative(x)), axes)))
        channels = shape[axes[1]]
        return emit(conv(emit(op.add(emit(moved), constant(1, channels, 1, 1, seed=5))), 20, 1))

    check_scheduled(relax_module(body, shape))


def test_a_map_that_is_sliced_first() -> None:
    """The permutation is of another tensor than the map."""

    def body(emit, x):
        x = emit(conv(x, LANES, 1))
        part = emit(op.strided_slice(x, [2, 3], [1, 0], [6, 9], [2, 1]))
        return emit(op.permute_dims(part, (0, 2, 3, 1)))

    check_scheduled(relax_module(body, (1, 3, 7, 9)))
