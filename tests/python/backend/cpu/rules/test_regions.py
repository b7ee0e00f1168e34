# SPDX-License-Identifier: Apache-2.0
"""Poolings of regions by a kernel, compared with the loops that TVM makes of their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, TARGETS, check_scheduled, constant, conv, relax_module
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.region_parts import RegionPool
from tvm_ios.ops.regions import pool_regions

op = relax.op
STRANGE = [[1, 2, 12.3, 9.1], [4, 4, 2, -3], [-9, -9, 30, 25], [0, 30, 9, 31], [np.nan, 0, 3, 3]]
POOLS = {
    "averages": RegionPool("average", (3, 2), 0.7, samples=2),
    "averages of many": RegionPool("average", (2, 3), half_pixel=True),
    "corners": RegionPool("max of corners", (2, 2), 1.2, samples=3),
    "largest": RegionPool("max", (3, 4), 0.9),
}


def network(pool: RegionPool, channels: int, after: int) -> tvm.IRModule:
    """A pooling of what a convolution computes, which another one reads."""

    def body(emit, x, regions):
        images = relax.const(np.array([1, 0, 1, 1, 0]), "int64")
        data = emit(conv(x, channels))
        pooled = pool_regions(relax.BlockBuilder.current(), pool, data, regions, images)
        moved = emit(op.add(pooled, constant(1, channels, 1, 1)))
        joined = emit(op.multiply(moved, constant(5, channels, *pool.parts, seed=2)))
        return emit(conv(joined, after))

    return relax_module(body, (2, 3, 15, 17), (5, 4))


def arguments() -> list[Any]:
    data = np.random.default_rng(0).standard_normal((2, 3, 15, 17)).astype("float32")
    return [data, np.array(STRANGE, "float32")]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", POOLS)
def test_poolings(name: str, target: tvm.target.Target) -> None:
    """Of channels that fill several groups of blocks, or none."""
    for channels in (3, 144):
        check_scheduled(network(POOLS[name], channels, 5), target=target, arguments=arguments())


def test_which_kernel_pools() -> None:
    lowered = Scheduler.prepare(network(POOLS["averages"], 20, 5), NATIVE).stage_builder.lowered
    (found,) = (
        made.kernel
        for operator, made in zip(lowered.graph.operators, lowered.implementations, strict=True)
        if operator.kind == "pool_regions"
    )
    assert found.name == "regions"
    assert found.num_phases == 1  # it reads and writes blocks of channels
