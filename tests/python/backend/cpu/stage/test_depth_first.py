# SPDX-License-Identifier: Apache-2.0
"""A pooling shares row strips with the operator before it, without a search."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, check_scheduled, constant, conv, relax_module
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.schedule import ScheduledStage

op = relax.op
Body = Callable[..., relax.Expr]

CHANNELS = 64
SIZE = 8 + int((2 * core_of(NATIVE).l2_bytes / (4 * CHANNELS)) ** 0.5)
"""So large that a feature map does not fit into the L2 caches of two cores."""
LARGE, SMALL = (1, 3, SIZE, SIZE), (1, 3, 16, 16)


def pooled(emit, x):
    x = emit(op.nn.max_pool2d(emit(conv(x, CHANNELS)), (3, 3), (2, 2), padding=1))
    return emit(conv(x, 16, 1, padding=0, seed=3))


def averaged_after_depthwise(emit, x):
    x = emit(conv(x, CHANNELS, 1, padding=0))
    weights = constant(CHANNELS, 1, 3, 3, seed=5)
    x = emit(op.nn.conv2d(x, weights, padding=1, groups=CHANNELS))
    return emit(conv(emit(op.nn.avg_pool2d(x, (2, 2), (2, 2))), 16, 1, padding=0, seed=3))


def read_twice(emit, x):
    x = emit(conv(x, CHANNELS))
    left = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
    right = emit(conv(x, CHANNELS, 1, padding=0, seed=3))
    return emit(conv(emit(op.concat([left, right], axis=1)), 16, 1, padding=0, seed=4))


def stages(body: Body, shape: tuple[int, ...], workers: int = 2) -> list[ScheduledStage]:
    """The stages of a network that is not searched."""
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    scheduler = Scheduler.prepare(
        relax_module(body, shape), target, options=Options(winograd=False)
    )
    return list(scheduler.unsearched().stages)


def joined(body: Body, shape: tuple[int, ...], workers: int = 2) -> list[tuple[str, ...]]:
    """The groups of several operators."""
    return [s.groups[0] for s in stages(body, shape, workers) if len(s.groups[0]) > 1]


def test_a_large_feature_map_is_pooled_by_strips() -> None:
    stage, _ = stages(pooled, LARGE)
    assert stage.groups == (("conv2d_0", "max_pool2d_1"),)
    assert stage.partitioning == "strips"
    assert joined(averaged_after_depthwise, LARGE) == [("depthwise_conv2d_1", "avg_pool2d_2")]


@pytest.mark.parametrize(
    ("body", "shape", "workers"),
    [(pooled, SMALL, 2), (pooled, LARGE, 64), (pooled, (2, *LARGE[1:]), 2), (read_twice, LARGE, 2)],
    ids=["fits", "fits into many caches", "images are divided", "read by another"],
)
def test_others_are_not(body: Body, shape: tuple[int, ...], workers: int) -> None:
    assert not joined(body, shape, workers)


@pytest.mark.parametrize("body", [pooled, averaged_after_depthwise])
def test_the_results_are_the_same(body: Body) -> None:
    check_scheduled(relax_module(body, LARGE), relative=1e-5, search=False)
