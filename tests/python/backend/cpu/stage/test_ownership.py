# SPDX-License-Identifier: Apache-2.0
"""Operators are divided by rows where workers then read what they wrote."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, constant, conv, relax_module
from tvm_ios.backend.cpu.stage.ownership import Traffic, divided_by_rows
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options

op = relax.op
Body = Callable[..., relax.Expr]


def prepared(body: Body, shape: tuple[int, ...], workers: int = 2) -> Scheduler:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    return Scheduler.prepare(relax_module(body, shape), target, options=Options(winograd=False))


def by_rows(body: Body, shape: tuple[int, ...], workers: int = 2) -> list[bool]:
    """Which operators are divided by rows, in order."""
    scheduler = prepared(body, shape, workers)
    rows = divided_by_rows(scheduler.stage_builder.lowered, workers)
    return [n in rows for n in range(len(scheduler.graph.operators))]


def chain(*channels: int, size: int = 1) -> Body:
    def body(emit, x):
        for seed, count in enumerate(channels):
            x = emit(conv(x, count, size, padding=size // 2, seed=seed))
        return x

    return body


LARGE, SMALL = (1, 64, 64, 64), (1, 512, 8, 8)


def test_large_planes_of_few_weights() -> None:
    assert by_rows(chain(192, 256, 192, 256, 192), LARGE)[1:-1] == [True] * 3


def test_small_planes_of_many_weights() -> None:
    assert not any(by_rows(chain(512, 512, 512, size=3), SMALL))


def test_one_worker_owns_all() -> None:
    assert not any(by_rows(chain(64, 256, 64), LARGE, workers=1))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_no_cache_holds_until_the_next_channels(workers: int) -> None:
    body = chain(512, 512, 512)
    long, short = (by_rows(body, (1, 512, 1, length), workers)[1] for length in (20_000, 500))
    assert long
    assert not short or workers > 1


def test_images_are_divided_as_they_are() -> None:
    assert not any(by_rows(chain(64, 256, 64), (2, *LARGE[1:])))


def test_fewer_rows_than_workers() -> None:
    """With rows for some workers only, the others would wait."""
    assert not any(by_rows(chain(64, 256, 64, size=3), (1, 64, 3, 256), workers=16))


def test_a_depthwise_convolution_follows_what_it_reads() -> None:
    def between(*channels: int) -> Body:
        def body(emit, x):
            x = chain(*channels)(emit, x)
            x = emit(
                op.nn.conv2d(x, constant(channels[-1], 1, 3, 3), padding=1, groups=channels[-1])
            )
            return chain(*channels)(emit, x)

        return body

    rows = by_rows(between(192, 256), LARGE)
    assert rows[2]
    assert rows[1]
    rows = by_rows(between(512, 512), SMALL)
    assert not any(rows)


@pytest.mark.parametrize("shape", [LARGE, (1, 64, 20, 20), SMALL])
def test_no_other_division_of_a_short_network_is_cheaper(shape: tuple[int, ...]) -> None:
    def body(emit, x):
        first = emit(conv(x, 64, 1, seed=1))
        second = emit(conv(first, 256, 3, padding=1, seed=2))
        third = emit(conv(second, 64, 1, seed=3))
        return emit(conv(emit(op.add(third, first)), 512, 1, seed=4))

    lowered = prepared(body, shape).stage_builder.lowered
    model = Traffic.of(lowered, 2)
    possible = [
        frozenset(rows)
        for count in range(len(model.planes) + 1)
        for rows in combinations(model.planes, count)
    ]
    found = model.total(divided_by_rows(lowered, 2))
    assert found <= min(map(model.total, possible)) * 1.05


def test_what_workers_read_of_others() -> None:
    """By tiles a convolution reads all that others wrote; by rows nothing, but all its weights."""
    model = Traffic.of(prepared(chain(192, 256, 192), LARGE).stage_builder.lowered, 2)
    nothing = model.cost(1, set()) - model.fixed[1][False]
    vectors = model.reads[1][0].vectors
    assert nothing == pytest.approx(model.remote * vectors / 2)
    assert model.cost(1, {0, 1}) == model.fixed[1][True]
    assert model.cost(1, {1}) - model.fixed[1][True] == pytest.approx(model.remote * vectors / 4)


@pytest.mark.parametrize(
    ("body", "shape", "expected"),
    [
        (chain(192, 256, 192), LARGE, ("tiles", "strips")),
        (chain(512, 512, 512, size=3), SMALL, ("tiles",)),
    ],
    ids=["large", "small"],
)
def test_what_is_measured_and_what_is_used_without(
    body: Body, shape: tuple[int, ...], expected: tuple[str, ...]
) -> None:
    scheduler = prepared(body, shape)
    builder = scheduler.stage_builder
    stage = builder.stage_of((1,), "concurrent")
    assert builder.partitionings(stage, {}) == expected
    assert builder.preferred_partitioning(stage) == expected[-1]
    assert scheduler.unsearched().stages[1].partitioning == expected[-1]
