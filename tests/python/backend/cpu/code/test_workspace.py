# SPDX-License-Identifier: Apache-2.0
"""Which tensors lie in a workspace, and where."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from support.networks import NATIVE, conv, relax_module
from tvm_ios.backend.cpu.code.workspace import Part, plan_workspace, read_before_written
from tvm_ios.backend.cpu.measure.network_tensors import NetworkTensors
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate


def test_a_root_is_read_too_early_unless_all_of_what_is_read_was_written() -> None:
    first, second, whole = Part("x", 0, 8), Part("x", 8, 12), Part("x", 0, 12)
    assert read_before_written([([], [first]), ([], [second]), ([whole], [])]) == set()
    assert read_before_written([([], [first]), ([whole], []), ([], [second])]) == {"x"}
    assert read_before_written([([], [second]), ([whole], []), ([], [first])]) == {"x"}
    assert read_before_written([([first], [first])]) == {"x"}


def test_tensors_share_memory_unless_they_are_live_in_one_stage() -> None:
    def part(name: str) -> Part:
        return Part(name, 0, 64)

    calls = [(0, [part("w"), part("a")]), (1, [part("a"), part("b")]), (2, [part("b"), part("c")])]
    offsets, num_bytes = plan_workspace(calls, {"w"})
    assert offsets.keys() == {"a", "b", "c"}
    assert num_bytes == 128
    assert offsets["a"] == offsets["c"] != offsets["b"]
    kept, num_bytes = plan_workspace(calls, {"w"}, {"a"})  # it is read after the last stage
    assert len(set(kept.values())) == 3
    assert num_bytes == 192


class _Memories:
    """The memory of a session, without one."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def memory(self, num_bytes: int) -> int:
        self.sizes.append(num_bytes)
        return len(self.sizes) - 1

    def write(self, memory: int, array: np.ndarray) -> None:
        assert array.nbytes <= self.sizes[memory]


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    """A chain of four convolutions."""

    def body(emit, x: relax.Expr) -> relax.Expr:
        for seed in range(4):
            x = emit(conv(x, 32, seed=seed))
        return x

    return Scheduler.prepare(relax_module(body, (1, 32, 7, 9)), NATIVE)


def test_what_a_run_writes_and_reads_is_in_its_workspace(scheduler: Scheduler) -> None:
    lowered, builder = scheduler.stage_builder.lowered, scheduler.stage_builder
    specs = [builder.stage_of(Candidate((i,), "concurrent").ops, "concurrent") for i in range(4)]
    chain = [spec.implementations[0] for spec in specs]
    tensors = NetworkTensors(lowered, _Memories(), seed=0)  # type: ignore[arg-type]

    def memories(order: list[int]) -> tuple[list[int], list[int]]:
        """The memories of what each convolution reads and of what it writes."""
        calls = [(stage, chain[i]) for stage, i in enumerate(order)]
        workspace = tensors.workspace(calls)
        places = [tensors.places(implementation, workspace) for _, implementation in calls]
        count = [len(implementation.inputs) for _, implementation in calls]
        written = [p[n].memory for p, n in zip(places, count, strict=True)]
        return [p[0].memory for p in places], written

    read, written = memories([0, 1, 2, 3])
    assert len({*read[1:], *written}) == 1
    read, written = memories([2, 3])
    assert read[1] == written[0] == written[1]
    assert read[0] != written[0]
    read, written = memories([3, 2])  # the last one computes with the value from before
    assert read[0] == written[1] != written[0]
