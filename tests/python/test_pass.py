# SPDX-License-Identifier: Apache-2.0
"""The pass in TVM: in a sequence, in a pipeline, on whole networks, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.networks import (
    NATIVE,
    TARGETS,
    UNOPTIMISED,
    assert_close,
    check_scheduled,
    compile_plain,
    conv,
    few_stages,
    flatten,
    many_stages,
    merging,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios import transform, zoo
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import CostError, OptionError, ScheduleError, TargetError
from tvm_ios.measure.transport.locations import LocalRunner
from tvm_ios.options import Options
from tvm_ios.transform import InterOperatorSchedule

op = relax.op


def network() -> tvm.IRModule:
    def body(emit, x):
        x = emit(op.nn.relu(emit(conv(x, 20))))
        branches = [emit(op.nn.relu(emit(conv(x, 24, k, seed=k)))) for k in (1, 3)]
        branches.append(emit(op.nn.max_pool2d(x, (3, 3), padding=1)))
        pooled = emit(op.nn.adaptive_avg_pool2d(emit(op.concat(branches, axis=1)), (1, 1)))
        return emit(op.nn.softmax(emit(op.reshape(pooled, (1, 68)))))

    return relax_module(body, (1, 20, 8, 8))


@cache
def expected_result() -> np.ndarray:
    return run_vm(compile_plain(network(), UNOPTIMISED), random_arguments(network()))[0]


def check_executable(executable: tvm.runtime.Module) -> None:
    assert_close(run_vm(executable, random_arguments(network()))[0], expected_result())


def test_the_pass_in_a_sequence() -> None:
    limits = {"max_group_size": None, "max_num_groups": None}
    schedule = InterOperatorSchedule(NATIVE, cost_model=few_stages, **limits)
    sequence = tvm.transform.Sequential([relax.transform.Normalize(), schedule])
    mod = sequence(network())
    assert isinstance(schedule, tvm.transform.Pass)
    assert schedule.schedule is not None
    assert len(schedule.schedule.stages) == 1
    check_executable(compile_plain(mod))


def test_the_pipeline_by_its_name() -> None:
    """It measures, so that the network is small."""

    def body(emit, x):
        return emit(op.add(emit(conv(x, 8, 1)), emit(op.nn.relu(x))))

    mod = relax_module(body, (1, 8, 5, 5))
    (expected,) = run_vm(compile_plain(mod, UNOPTIMISED), random_arguments(mod))
    executable = tvm.compile(mod, NATIVE, relax_pipeline="tvm_ios")
    assert_close(run_vm(executable, random_arguments(mod))[0], expected)


def test_the_pipeline_with_options() -> None:
    run = transform.pipeline(cost_model=merging, max_group_size=2)
    check_executable(tvm.compile(network(), NATIVE, relax_pipeline=run))


def test_the_pipeline_needs_a_target() -> None:
    with pytest.raises(TargetError, match="needs a target"):
        transform.pipeline()(network())


@pytest.mark.parametrize("cost_model", [few_stages, many_stages, merging])
@pytest.mark.parametrize("target", TARGETS)
def test_every_instruction_set(target: tvm.target.Target, cost_model) -> None:
    mod = InterOperatorSchedule(target, cost_model=cost_model)(network())
    check_executable(compile_plain(mod, target))


@pytest.mark.parametrize("workers", [1, 3])
def test_other_numbers_of_workers(workers: int) -> None:
    target = tvm_ios.target.resolve("llvm", threads=workers)
    mod = InterOperatorSchedule(target, cost_model=few_stages)(network())
    check_executable(compile_plain(mod, target))


@pytest.mark.parametrize("name", ["max_group_size", "max_num_groups", "max_block_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_options_out_of_range(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"{name} must be a whole number of at least 1"):
        InterOperatorSchedule(NATIVE, **{name: value})


def test_no_limits() -> None:
    check_scheduled(network(), max_group_size=None, max_num_groups=None)
    with pytest.raises(OptionError, match="max_block_size"):
        InterOperatorSchedule(NATIVE, max_block_size=None)


@pytest.mark.parametrize("option", [{"precision": "tf32"}, {"cudnn": True}], ids=str)
def test_options_of_another_device(option: dict) -> None:
    with pytest.raises(OptionError, match=r"A CPU does not multiply in tf32|for CUDA devices"):
        InterOperatorSchedule(NATIVE, search=False, **option)(network())


def test_a_gpu_for_a_cpu() -> None:
    with pytest.raises(OptionError, match="leave it out for a CPU"):
        InterOperatorSchedule(NATIVE, search=False, runner=LocalRunner(1))(network())


def test_an_unknown_cost_model() -> None:
    with pytest.raises(OptionError, match="cost_model must be"):
        InterOperatorSchedule(NATIVE, cost_model="guess")(network())


@pytest.mark.parametrize("target", ["metal", {"kind": "vulkan"}, "no such target"])
def test_targets_that_are_no_cpu(target: object) -> None:
    with pytest.raises(TargetError, match=r"is not supported|does not know the target"):
        InterOperatorSchedule(target, cost_model=few_stages)(network())


WRONG_COSTS = {
    "NaN": lambda graph, candidates: np.full(len(candidates), np.nan),
    "negative": lambda graph, candidates: np.full(len(candidates), -1.0),
    "too few": lambda graph, candidates: np.ones(len(candidates) - 1),
    "too many": lambda graph, candidates: np.ones(len(candidates) + 1),
    "of two axes": lambda graph, candidates: np.ones((len(candidates), 1)),
    "None": lambda graph, candidates: None,
    "text": lambda graph, candidates: ["fast"] * len(candidates),
}


@pytest.mark.parametrize("cost_model", WRONG_COSTS.values(), ids=WRONG_COSTS)
def test_a_cost_model_that_answers_wrongly(cost_model) -> None:
    with pytest.raises(CostError):
        InterOperatorSchedule(NATIVE, cost_model=cost_model)(network())


def test_what_a_cost_model_raises_is_passed_on() -> None:
    def broken(_graph, _candidates):
        raise ZeroDivisionError("the cost model is broken")

    with pytest.raises(ZeroDivisionError, match="the cost model is broken"):
        Scheduler.prepare(network(), NATIVE, cost_model=broken).search()


def test_a_cost_that_forbids_everything() -> None:
    def forbidden(_graph, candidates):
        return np.full(len(candidates), np.inf)

    with pytest.raises(ScheduleError, match="infinite latency"):
        InterOperatorSchedule(NATIVE, cost_model=forbidden)(network())


def test_the_same_costs_give_the_same_schedule() -> None:
    def costs(_graph, candidates):
        keys = [(c.ops, len(c.strategy)) for c in candidates]
        return np.array([hash(key) % 97 + 1.0 for key in keys])

    found = [Scheduler.prepare(network(), NATIVE, cost_model=costs).search() for _ in range(3)]
    assert found[0].stages == found[1].stages == found[2].stages


def test_a_function_of_symbolic_dimensions() -> None:
    """It takes any sizes, in TVM's own virtual machine, too."""
    rows = tvm.tirx.Var("n", "int64")
    ty = relax.TensorType((rows, 4), "float32")
    mod = relax_module(lambda emit, x: emit(op.nn.softmax(emit(op.nn.relu(x)))), ty)
    schedule = InterOperatorSchedule(NATIVE)
    schedule(mod)
    assert schedule.schedule is not None
    assert all(len(stage.groups) == 1 for stage in schedule.schedule.stages)
    executable = tvm.compile(mod, target=NATIVE, relax_pipeline=transform.pipeline())
    machine = relax.VirtualMachine(executable, tvm.cpu())
    for count in (1, 5, 33):
        x = np.random.default_rng(count).standard_normal((count, 4)).astype("float32")
        powers = np.exp(np.maximum(x, 0))
        found = machine["main"](tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), rtol=1e-4)
    with pytest.raises(ValueError, match="n must be at least 1"):
        machine["main"](tvm.runtime.tensor(np.zeros((0, 4), "float32")))


def test_a_measured_schedule_says_what_was_measured() -> None:
    schedule = InterOperatorSchedule(NATIVE)
    check_executable(compile_plain(schedule(network())))
    found = schedule.schedule
    assert found.measurements > len(found.operators)
    assert {"sequential", "scheduled"} <= set(found.estimates) & set(found.measured)
    assert all(seconds > 0 for seconds in found.measured.values())
    assert all(stage.seconds > 0 for stage in found.stages)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("squeezenet", 64), ("inception_v3_small", 75)])
def test_networks_against_onnx_runtime(name: str, size: int, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    zoo.export_onnx(name, tmp_path / "m.onnx", image_size=size)
    image = np.random.default_rng(0).standard_normal((1, 3, size, size)).astype("float32")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    (expected,) = session.run(None, {"data": image})
    options = Options(max_group_size=2, max_num_groups=4)
    scheduler = Scheduler.prepare(zoo.load(name, image_size=size), NATIVE, options=options)
    schedules = {
        "scheduled": scheduler.search(),
        "greedy": scheduler.greedy(),
        "sequential": scheduler.sequential(),
    }
    variants = scheduler.compile(schedules)
    for variant in schedules:
        (actual,) = flatten(variants(variant, [tvm.runtime.tensor(image)]))
        assert_close(actual, expected, relative=1e-3)


@pytest.mark.slow
def test_a_network_in_large_and_in_merged_stages() -> None:
    mod = zoo.load("inception_v3_small", image_size=75)
    arguments = random_arguments(mod)
    (expected,) = run_vm(compile_plain(mod, UNOPTIMISED), arguments)
    large, merged = (Scheduler.prepare(mod, NATIVE, cost_model=c) for c in (few_stages, merging))
    schedules = [large.search(), merged.search()]
    assert max(len(stage.operators) for stage in schedules[0].stages) > 8
    assert any(stage.strategy == "merge" for stage in schedules[1].stages)
    for scheduler, schedule in zip((large, merged), schedules, strict=True):
        (actual,) = run_vm(compile_plain(scheduler.emit(schedule)), arguments)
        assert_close(actual, expected, relative=1e-3)


RUN_ALONE = """
import sys
class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tvm_ios":
            raise ImportError("tvm_ios is not installed here")
sys.meta_path.insert(0, Forbid())
import numpy as np, tvm
from tvm import relax
vm = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
np.save(sys.argv[3], vm["main"](tvm.runtime.tensor(np.load(sys.argv[2]))).numpy())
assert "tvm_ios" not in sys.modules
"""


def test_the_exported_library_runs_without_this_package(tmp_path: Path) -> None:
    """Also where a user gives TVM fewer threads than the schedule has workers."""
    run = transform.pipeline(cost_model=few_stages)
    library, image = str(tmp_path / "m.so"), str(tmp_path / "x.npy")
    tvm.compile(network(), NATIVE, relax_pipeline=run).export_library(library)
    np.save(image, random_arguments(network())[0])
    for threads in ({}, {"TVM_NUM_THREADS": "1"}):
        result = str(tmp_path / f"y{len(threads)}.npy")
        environment = {k: v for k, v in os.environ.items() if k != "TVM_NUM_THREADS"} | threads
        command = [sys.executable, "-c", RUN_ALONE, library, image, result]
        subprocess.run(command, check=True, env=environment, cwd=tmp_path)
        assert_close(np.load(result), expected_result())


def test_several_threads_each_with_a_machine_of_its_own() -> None:
    executable = compile_plain(InterOperatorSchedule(NATIVE, cost_model=few_stages)(network()))
    arguments, expected = random_arguments(network()), expected_result()
    # TVM's LLVM module starts its just-in-time compiler at the first look-up, without a lock.
    assert_close(run_vm(executable, arguments)[0], expected)
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                assert_close(run_vm(executable, arguments)[0], expected)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
