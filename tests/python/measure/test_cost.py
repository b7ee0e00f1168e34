# SPDX-License-Identifier: Apache-2.0
"""The measured cost: what is measured, how often, and what is never chosen."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, conv, relax_module
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate
from tvm_ios.lowering.cold import ColdWeights
from tvm_ios.measure.cost import MeasuredCost
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.options import Options


def _twins() -> tvm.IRModule:
    """Two equal branches and a running sum, which has no kernel here."""

    def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
        branches = [emit(relax.op.nn.relu(emit(conv(x, 24, seed=s)))) for s in (1, 2)]
        return relax.op.cumsum(emit(relax.op.concat(branches, axis=1)), axis=1)

    return relax_module(body, (1, 8, 13, 11))


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler.prepare(_twins(), NATIVE, options=Options(measure_all=True))


def _cost(scheduler: Scheduler) -> MeasuredCost:
    cost = scheduler.cost
    assert isinstance(cost, MeasuredCost)
    return cost


def _index(scheduler: Scheduler, kind: str) -> list[int]:
    return [op.index for op in scheduler.graph.operators if op.kind == kind]


def test_equal_stages_are_measured_once(scheduler: Scheduler) -> None:
    cost = _cost(scheduler)
    first, second = _index(scheduler, "conv2d")
    before = cost.measurements
    latencies = cost([Candidate((first,), "concurrent"), Candidate((second,), "concurrent")])
    assert latencies[0] == latencies[1] > 0
    assert cost.measurements == before + 1
    again = cost([Candidate((second,), "concurrent")])
    assert again[0] == latencies[0]
    assert cost.measurements == before + 1


def test_an_operator_without_a_kernel_is_free_alone_and_never_shares(scheduler: Scheduler) -> None:
    (sums,) = _index(scheduler, "cumsum")
    (concat,) = _index(scheduler, "concat")
    alone, shared = _cost(scheduler)(
        [Candidate((sums,), "concurrent"), Candidate((concat, sums), "concurrent")]
    )
    assert alone == 0.0
    assert math.isinf(shared)


def test_refining_ends(scheduler: Scheduler) -> None:
    cost = _cost(scheduler)
    stages = [Candidate(tuple(_index(scheduler, "conv2d")), "concurrent")]
    cost(stages)
    assert cost.resolve(stages) > 0
    assert cost.resolve(stages) == 0


def _cold(specs: list[TensorSpec]) -> tuple[ColdWeights, list[int]]:
    """Cold weights, and the sizes of the memories that they asked for."""
    sizes: list[int] = []

    def allocate(num_bytes: int) -> int:
        sizes.append(num_bytes)
        return len(sizes) - 1

    return ColdWeights(specs, allocate), sizes


def _bytes(cold: ColdWeights, spec: TensorSpec) -> tuple[int, range]:
    """The memory and the bytes of it that are taken next."""
    place = cold.take(spec)
    assert place.offset % 64 == 0
    return place.memory, range(place.offset, place.offset + spec.num_bytes)


def test_places_of_the_ring_arena_do_not_overlap() -> None:
    specs = [TensorSpec((3, 5)), TensorSpec((4, 4)), TensorSpec((7,))]
    cold, sizes = _cold(specs)
    first = [_bytes(cold, spec) for spec in specs]
    assert all(memory == 0 and taken.stop <= sizes[0] for memory, taken in first)
    assert sum(len(set(taken)) for _, taken in first) == len(set().union(*(t for _, t in first)))
    assert _bytes(cold, specs[0]) == first[0]


def test_cold_weights_hold_more_than_the_network_has() -> None:
    cold, sizes = _cold([TensorSpec((4,))])
    large = TensorSpec((1000,))
    (one, first), (two, second) = (_bytes(cold, large) for _ in range(2))
    assert one == two == 1
    assert not set(first) & set(second)
    assert second.stop <= sizes[1]
