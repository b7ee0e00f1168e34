# SPDX-License-Identifier: Apache-2.0
"""Schedules of known sizes for the same networks of open sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from onnx import helper

from support.networks import NATIVE
from support.open_networks import numbers, save, weight
from tvm_ios.compiler.check import check_schedule
from tvm_ios.compiler.following import followed_stages
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.dimensions import Given
from tvm_ios.frontend.onnx.file import from_file
from tvm_ios.schedule.schedule import Schedule, ScheduledStage
from tvm_ios.sizes.size import OpenSizes

node = helper.make_node


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Two products, of which one is scaled by the number of rows: an operator computes that."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["x", "v"], ["b"]),
        node("Shape", ["x"], ["shape"], start=0, end=1),
        node("Range", ["zero", "count", "one"], ["places"]),
        node("Squeeze", ["shape"], ["count"]),
        node("Cast", ["places"], ["column"], to=1),
        node("Unsqueeze", ["column", "axis"], ["columns"]),
        node("Mul", ["a", "columns"], ["c"]),
        node("Sub", ["c", "b"], ["y"]),
    ]
    nodes.insert(3, nodes.pop(4))
    weights = [weight("w", 8, 16), weight("v", 8, 16)]
    weights += [numbers("zero", 0), numbers("one", 1), numbers("axis", [1])]
    return save(tmp_path / "m.onnx", nodes, {"x": ["n", 8]}, ["y"], weights)


def scheduled(path: Path, given: Given, opened: OpenSizes | None = None) -> Scheduler:
    return Scheduler.prepare(from_file(path, given, opened), NATIVE)


def together(schedule: Schedule, kind: str) -> Schedule:
    """The schedule with all operators of a kind in one stage."""
    alike = [op.name for op in schedule.operators if op.kind == kind]
    first, *others = [stage for stage in schedule.stages if set(stage.operators) <= set(alike)]
    stage = ScheduledStage((*first.groups, *(g for other in others for g in other.groups)))
    stages = (stage if s is first else s for s in schedule.stages if s not in others)
    return replace(schedule, stages=tuple(stages))


def test_operators_that_compute_sizes_come_between(network: Path) -> None:
    known = scheduled(network, Given(dims={"n": 24}))
    general = scheduled(network, Given(), OpenSizes())
    assert len(general.graph.operators) > len(known.graph.operators)
    schedule = general.following(together(known.unsearched(), "matmul"))
    kinds = {op.name: op.kind for op in schedule.operators}
    shared = [stage for stage in schedule.stages if len(stage.groups) > 1]
    assert [[kinds[name] for name in stage.operators] for stage in shared] == [["matmul"] * 2]
    check_schedule(schedule, general.graph)


def test_other_operators_are_not_followed(network: Path, tmp_path: Path) -> None:
    other = save(
        tmp_path / "other.onnx", [node("Softmax", ["x"], ["y"])], {"x": ["n", 8]}, ["y"], []
    )
    schedule = scheduled(other, Given(dims={"n": 24})).unsearched()
    general = scheduled(network, Given(), OpenSizes())
    assert followed_stages(schedule, general.graph, general.stage_builder) is None
    assert general.following(schedule).stages == general.unsearched().stages
