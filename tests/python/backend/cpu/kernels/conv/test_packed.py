# SPDX-License-Identifier: Apache-2.0
"""Convolutions of few results, several columns of which lie in a vector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import relax

from support.networks import NATIVE, check_scheduled, few_stages, relax_module
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.kernels.conv.packed import packing_of
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.window import Window
from tvm_ios.options import Options

_CORE = core_of(NATIVE)
_ROW = Conv2d(1, 8, Window(1, 1, 1), Window(100, 100, 9, before=4), (2,))


def _constant(*shape: int, seed: int = 0) -> relax.Constant:
    array = np.random.default_rng(seed).standard_normal(shape)
    return relax.const(array.astype("float32"))


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((1, 5, 1, 1003), (1, 11), (1, 1), (0, 5, 0, 5)),
        ((2, 18, 1, 40), (1, 64), (1, 3), (0, 40, 0, 33)),
        ((1, 1, 1, 400), (1, 32), (1, 2), (0, 0, 0, 0)),
        ((2, 33, 7, 29), (3, 3), (1, 1), (1, 1, 1, 1)),
        ((1, 3, 9, 18), (2, 7), (2, 1), (1, 6, 0, 2)),
    ],
)
def test_packed_columns(
    channels: int,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, ...],
) -> None:
    """Columns that do not fill the last vector are not written: the residual lies behind."""

    def body(emit, x):
        weights = _constant(channels, shape[1], *kernel)
        conv = emit(relax.op.nn.conv2d(x, weights, stride, padding))
        shifted = emit(relax.op.add(conv, _constant(1, channels, 1, 1, seed=1)))
        residual = emit(
            relax.op.nn.conv2d(x, _constant(channels, shape[1], *kernel), stride, padding)
        )
        added = emit(relax.op.add(shifted, emit(relax.op.sigmoid(residual))))
        return emit(relax.op.nn.relu(added))

    mod = relax_module(body, shape)
    scheduler = Scheduler.prepare(
        mod, NATIVE, cost_model=few_stages, options=Options(winograd=False)
    )
    made = scheduler.stage_builder.lowered.implementations
    assert "conv2d_packed" in {i.kernel.name for i in made if i is not None}
    check_scheduled(mod, winograd=False)


def test_what_gains_nothing_is_not_packed() -> None:
    assert packing_of(_ROW, _CORE) is not None
    pointwise = replace(_ROW, columns=Window(100, 100, 1))
    many = replace(_ROW, out_channels=(_CORE.lanes,))
    dilated = replace(_ROW, columns=Window(100, 84, 9, dilation=2))
    for conv in (pointwise, many, dilated):
        assert packing_of(conv, _CORE) is None
