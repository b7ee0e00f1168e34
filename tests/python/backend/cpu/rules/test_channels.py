# SPDX-License-Identifier: Apache-2.0
"""Operators that only reorder channels keep feature maps blocked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, check_scheduled, constant, conv, few_stages, relax_module
from tvm_ios.compiler.scheduler import Scheduler

op = relax.op

Emit = Callable[[relax.Expr], relax.Var]


def shuffle(emit: Emit, x: relax.Var, groups: int) -> relax.Expr:
    n, c, h, w = (int(size) for size in x.ty.shape.values)
    apart = emit(op.reshape(x, (n, groups, c // groups, h, w)))
    return op.reshape(emit(op.permute_dims(apart, [0, 2, 1, 3, 4])), (n, c, h, w))


def shuffled(emit: Emit, x: relax.Var) -> relax.Expr:
    """A shuffle of two convolutions side by side, whose halves are read, and an epilogue."""
    parts = [emit(conv(x, 29, seed=seed)) for seed in (0, 1)]
    mixed = emit(shuffle(emit, emit(op.concat(parts, axis=1)), 2))
    first = emit(op.strided_slice(mixed, [1], [0], [29]))
    second = emit(op.strided_slice(mixed, [1], [29], [58]))
    shifted = emit(op.nn.relu(emit(op.add(second, constant(1, 29, 1, 1)))))
    return op.concat([emit(conv(first, 5)), shifted], axis=1)


def every_third(emit: Emit, x: relax.Var) -> relax.Expr:
    taken = emit(op.strided_slice(emit(conv(x, 50)), [1], [2], [50], [3]))
    return conv(emit(op.nn.relu(taken)), 7)


def pixels(emit: Emit, x: relax.Var) -> relax.Expr:
    """Pixels change places, too: no reordering of channels."""
    map_ = emit(conv(x, 20, padding=1))
    folded = emit(op.reshape(map_, (2, 5, 2, 2, 9, 8)))
    return conv(
        emit(op.reshape(emit(op.permute_dims(folded, [0, 1, 4, 2, 5, 3])), (2, 5, 18, 16))), 3
    )


def images(emit: Emit, x: relax.Var) -> relax.Expr:
    """Channels of one image go to another one."""
    map_ = emit(conv(x, 20, padding=1))
    return conv(emit(op.permute_dims(emit(op.reshape(map_, (20, 2, 9, 8))), [1, 0, 2, 3])), 3)


def across(emit: Emit, x: relax.Var) -> relax.Expr:
    """A shuffle of the channels of both images together."""
    apart = emit(op.reshape(emit(conv(x, 20, padding=1)), (1, 2, 20, 9, 8)))
    moved = emit(op.permute_dims(apart, [0, 2, 1, 3, 4]))
    return conv(emit(op.reshape(moved, (2, 20, 9, 8))), 3)


def rows(emit: Emit, x: relax.Var) -> relax.Expr:
    """Rows change places."""
    apart = emit(op.reshape(emit(conv(x, 20, padding=1)), (2, 20, 3, 3, 8)))
    moved = emit(op.permute_dims(apart, [0, 1, 3, 2, 4]))
    return conv(emit(op.reshape(moved, (2, 20, 9, 8))), 3)


def transposed(emit: Emit, x: relax.Var) -> relax.Expr:
    return conv(emit(op.permute_dims(emit(conv(x, 20, padding=1)), [0, 1, 3, 2])), 3)


@pytest.mark.parametrize(
    ("body", "reorders"),
    [
        (shuffled, 3),
        (every_third, 1),
        (pixels, 0),
        (images, 0),
        (across, 0),
        (rows, 0),
        (transposed, 0),
    ],
)
def test_channels(body: Callable[[Emit, relax.Var], relax.Expr], reorders: int) -> None:
    mod: tvm.IRModule = relax_module(lambda emit, x: emit(body(emit, x)), (2, 3, 9, 8))
    lowered = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).stage_builder.lowered
    kernels = [i.kernel.name for i in lowered.implementations if i is not None]
    assert kernels.count("channels") >= reorders
    assert reorders or "channels" not in kernels
    check_scheduled(mod)
