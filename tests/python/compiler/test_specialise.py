# SPDX-License-Identifier: Apache-2.0
"""One schedule for each batch size, and each of them at every other one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from support.cli import assert_one_sentence, reference, relative_error, save_branches
from support.networks import NATIVE, conv, few_stages, many_stages, relax_module
from support.numpy_backend import KIND, NumpyKind
from tvm_ios.backend import registry
from tvm_ios.cli.main import main
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.compiler.specialise import specialise
from tvm_ios.errors import ScheduleError
from tvm_ios.graph.fingerprint import fingerprint
from tvm_ios.schedule import Schedule


def network(batch: int, kernels: tuple[int, ...] = (1, 3)) -> tvm.IRModule:
    def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
        outputs = [emit(relax.op.nn.relu(emit(conv(x, 24, k, seed=k)))) for k in kernels]
        return emit(relax.op.concat(outputs, axis=1))

    return relax_module(body, (batch, 8, 13, 11))


@pytest.mark.slow
def test_each_batch_size_has_a_schedule_that_was_run_at_all() -> None:
    costs = {1: few_stages, 3: many_stages}
    made = {b: Scheduler.prepare(network(b), NATIVE, cost_model=cost) for b, cost in costs.items()}
    schedules = specialise(made)
    assert [schedules[b].batch for b in (1, 3)] == [1, 3]
    for batch, schedule in schedules.items():
        assert schedule.at_batch.keys() == {"1", "3"}
        assert all(seconds > 0 for seconds in schedule.at_batch.values())
        made[batch].check(schedule)
        assert Schedule.from_dict(json.loads(json.dumps(schedule.to_dict()))) == schedule


def test_schedules_are_run_at_each_batch_size() -> None:
    """The search finds one stage for one image, and an operator a stage for three."""
    seconds = {"sequential": 2.0, "greedy": 1.5, "scheduled": 1.0, "batch 1": 1.25, "batch 3": 1.75}
    registry.register(NumpyKind(lambda name, _: lambda: seconds[name]))
    costs = {1: few_stages, 3: many_stages}
    try:
        made = {b: Scheduler.prepare(network(b), KIND, cost_model=c) for b, c in costs.items()}
        one, three = specialise(made).values()
    finally:
        registry.register(NumpyKind())
    assert one.at_batch == pytest.approx({"1": 1.0, "3": 1.25})
    assert three.at_batch == pytest.approx({"1": 1.75, "3": 1.0})
    assert {one.verdict, three.verdict} == {"2.000x, 95% interval 2.000-2.000"}


def test_adapted_stages_stay_together() -> None:
    one = Scheduler.prepare(network(1), NATIVE, cost_model=few_stages)
    found = one.search()
    three = Scheduler.prepare(network(3), NATIVE, cost_model=many_stages)
    adapted = three.adapt(found)
    assert [s.groups for s in adapted.stages] == [s.groups for s in found.stages]
    assert adapted.model == fingerprint(three.graph) != found.model
    three.emit(adapted)


def test_another_network_is_no_other_batch_size() -> None:
    found = Scheduler.prepare(network(1), NATIVE, cost_model=few_stages).search()
    other = Scheduler.prepare(network(3, (1, 3, 5)), NATIVE, cost_model=few_stages)
    with pytest.raises(ScheduleError, match="made for other operators"):
        other.adapt(found)


@pytest.mark.slow
def test_compile_makes_a_library_for_each_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_branches(tmp_path / "m.onnx", batch="N")
    files = ["-o", "m.so", "--schedule-out", "s.json"]
    assert main(["compile", "m.onnx", *files, "--batch-sizes", "1,3", "--no-database"]) == 0
    assert "made for" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {
        "m.onnx", "m.b1.so", "m.b3.so", "s.b1.json", "s.b3.json",
    }  # fmt: skip
    for batch in (1, 3):
        image = np.random.default_rng(batch).standard_normal((batch, 3, 24, 24)).astype("float32")
        vm = relax.VirtualMachine(tvm.runtime.load_module(f"m.b{batch}.so"), tvm.cpu())
        computed = vm["main"](tvm.runtime.tensor(image)).numpy()
        assert relative_error(computed, reference(tmp_path / "m.onnx", image)) < 1e-5
    assert main(["show", "s.b1.json", "s.b3.json"]) == 0
    printed = capsys.readouterr().out
    assert "batch 1" in printed
    assert "batch 3" in printed
    assert main(["show", "s.b1.json", "s.b3.json", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["schedules"]
    assert [schedule["batch"] for schedule in shown] == [1, 3]


def test_what_is_at_odds_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["-o", str(tmp_path / "m.so"), "--batch-sizes", "1,2", "--batch", "1"]
    assert main(["compile", "zoo:squeezenet", *arguments]) != 0
    message = "--batch-sizes and --batch exclude each other"
    assert_one_sentence(capsys.readouterr(), message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sizes", ["1,1", "0", "1,", "one"])
def test_batch_sizes_are_different_whole_numbers(
    sizes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "zoo:squeezenet", "-o", "m.so", "--batch-sizes", sizes]) != 0
    assert "--batch-sizes" in capsys.readouterr().err
