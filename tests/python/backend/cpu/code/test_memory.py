# SPDX-License-Identifier: Apache-2.0
"""What is needed at the same time never shares memory; what is not does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.networks import NATIVE, conv, few_stages, many_stages, relax_module
from tvm_ios import zoo
from tvm_ios.backend.cpu.code.constants import Constants
from tvm_ios.backend.cpu.code.memory import ALIGNMENT, Lifetime, aligned, plan_memory
from tvm_ios.backend.cpu.code.region import CpuStage, form_region
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.lowering.inplace import resolve

LIFETIMES = st.lists(
    st.builds(
        lambda size, first, length: Lifetime(size, first, first + length),
        st.integers(0, 5000),
        st.integers(0, 20),
        st.integers(0, 8),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(LIFETIMES)
def test_blocks_that_live_together_are_apart(lifetimes: list[Lifetime]) -> None:
    offsets, total = plan_memory(lifetimes)
    for i, (a, lifetime) in enumerate(zip(offsets, lifetimes, strict=True)):
        assert a % ALIGNMENT == 0
        assert a + lifetime.num_bytes <= total
        for b, other in list(zip(offsets, lifetimes, strict=True))[:i]:
            apart = a + lifetime.num_bytes <= b or b + other.num_bytes <= a
            assert apart or not lifetime.overlaps(other)
    live = [
        sum(aligned(t.num_bytes) for t in lifetimes if t.first <= moment <= t.last)
        for moment in range(30)
    ]
    assert max(live) <= total <= sum(aligned(t.num_bytes) for t in lifetimes)


def lowered_stages(scheduler: Scheduler, schedule) -> list[CpuStage]:
    return list(scheduler.lower(schedule))


def places_by_value(scheduler: Scheduler, stages: list[CpuStage]) -> list[tuple]:
    """Of every tensor of the workspace its bytes and the stages in which it is used."""
    slots = scheduler.stage_builder.lowered.slots
    region = form_region(stages, set(), slots, Constants.of(stages).offsets)
    workspace = len(region.inputs) + len(region.outputs)
    used: dict[object, tuple[int, int, set[int]]] = {}
    for number, stage in enumerate(stages):
        for implementation in stage.implementations:
            kernel = implementation.kernel
            values = (*implementation.inputs, *implementation.outputs)
            keys = [v if isinstance(v, np.ndarray) else resolve(v, slots)[0] for v in values]
            keys += [(id(implementation), i) for i in range(len(kernel.scratch))]
            places = region.places[id(implementation)]
            for key, place, spec in zip(keys, places, kernel.tensors, strict=True):
                if place.parameter != workspace:
                    continue
                key = id(key) if isinstance(key, np.ndarray) else key
                begin, end, stages_of = used.get(key, (place.offset, 0, set()))
                begin, end = min(begin, place.offset), max(end, place.offset + spec.num_bytes)
                used[key] = (begin, end, stages_of | {number})
    return list(used.values())


def assert_disjoint(scheduler: Scheduler, schedule) -> int:
    """Tensors whose lives overlap lie apart; returns how many share memory at other times."""
    places = places_by_value(scheduler, lowered_stages(scheduler, schedule))
    shared = 0
    for i, (begin, end, stages) in enumerate(places):
        for other_begin, other_end, other_stages in places[:i]:
            together = min(stages) <= max(other_stages) and min(other_stages) <= max(stages)
            overlap = begin < other_end and other_begin < end
            assert not (together and overlap), "memory is shared"
            shared += overlap
    return shared


def test_the_tensors_of_a_whole_network_lie_apart() -> None:
    network = zoo.load("inception_v3_small", image_size=75)
    for cost_model in (few_stages, many_stages):
        scheduler = Scheduler.prepare(network, NATIVE, cost_model=cost_model)
        assert assert_disjoint(scheduler, scheduler.search()) > 0


def test_branches_of_equal_sizes_lie_apart() -> None:
    """Tempting for a planner that reuses memory as soon as a branch is done."""

    def body(emit, x):
        for depth in range(3):
            branches = [emit(conv(x, 20, 1, seed=3 * depth + i)) for i in range(3)]
            x = emit(branches[0] + emit(branches[1] + branches[2]))
        return x

    scheduler = Scheduler.prepare(relax_module(body, (1, 20, 8, 8)), NATIVE, cost_model=few_stages)
    assert_disjoint(scheduler, scheduler.search())
