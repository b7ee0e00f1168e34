# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios selftest``: what it checks, and that a fault costs one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tvm

from support.cli import assert_one_sentence
from support.cuda.fake_driver import with_fake_driver
from support.networks import UNOPTIMISED, assert_close, compile_plain, run_vm
from support.paths import TESTS
from support.selftest_plans import NOTHING
from tvm_ios import selftest
from tvm_ios.backend.cpu.core import check_runnable
from tvm_ios.backend.cpu.kernels.attention.attention import MOST_DEPTH
from tvm_ios.backend.cpu.rules import RULES
from tvm_ios.backend.cuda.code.toolchain import find_toolchain
from tvm_ios.cli.main import main
from tvm_ios.graph.extract import extract
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.selftest import FAILED, LEFT_OUT, NOT_RUN, OK, PLANS, Outcome, Settings
from tvm_ios.selftest.cases import CASES, CPU_CASES, Case
from tvm_ios.selftest.checks import KernelFault
from tvm_ios.selftest.reference import ROUNDING, compare, reference
from tvm_ios.selftest.supervisor import run_plan
from tvm_ios.support.errors import TargetError


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes find the plans of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)


def test_a_fault_costs_one_line(plans: None) -> None:
    outcomes = run_plan("support.selftest_plans:plan", Settings(NOTHING), limit=3)
    found = {f"{outcome.group}: {outcome.name}": outcome for outcome in outcomes}
    expected = {
        "device: first": (OK, "found"),
        "faults: wrong": (FAILED, "The result is off."),
        "faults: crash": (FAILED, "its process was ended by SIGSEGV"),
        "faults: hang": (FAILED, "gave no answer in 3 s, and was ended"),
        "faults: error": (FAILED, "CUDA error: an illegal memory access"),
        "faults: end": (FAILED, "its process ended with status 3: a library said goodbye"),
        "faults: left out": (LEFT_OUT, "not on this machine"),
    }
    assert {name: (found[name].status, found[name].detail) for name in expected} == expected
    process = {name: o.detail for name, o in found.items() if name not in expected}
    assert all(found[name].status == OK for name in process)
    # What is only wrong leaves the process; every fault, and every group, has a new one.
    assert process["faults: right"] == process["faults: right after wrong"]
    assert len(set(process.values())) == len(process) - 1 == 5
    assert "said before the crash" in found["faults: crash"].log
    assert "was encountered" in found["faults: error"].log
    assert found["faults: wrong"].log == ""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_behind(plans: None, end: signal.Signals, tmp_path: Path) -> None:
    """However the self-test ends."""
    noted = tmp_path / "process"
    code = (
        "from tvm_ios.selftest.supervisor import run_plan\n"
        "from tvm_ios.selftest import Settings\n"
        "list(run_plan('support.selftest_plans:note_process', Settings('none')))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"NOTED": str(noted)},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(lambda: noted.exists() and noted.read_text())
    process.send_signal(end)
    process.wait(timeout=30)
    child = Path("/proc") / noted.read_text()
    wait_for(lambda: not child.exists())


def wait_for(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("case", CPU_CASES, ids=lambda case: case.name)
def test_references(case: Case) -> None:
    """In double precision a case computes what it computes in single precision."""
    inputs = case.inputs()
    (single,) = run_vm(compile_plain(case.module(), UNOPTIMISED), inputs)
    assert_close(single, reference(case)(inputs), 1e-5)
    assert 1e-3 < np.abs(single).max() < 1e3


def test_every_rule_has_a_case() -> None:
    prepared = (prepare(case.module(), attention_depth=MOST_DEPTH) for case in CPU_CASES)
    kinds = {op.kind for mod in prepared for op in extract(mod).operators}
    # Of one rule.
    twins = {"avg_pool2d": "max_pool2d", "mean": "sum", "min": "max", "argmin": "argmax"}
    moved = {"flatten", "expand_dims", "squeeze", "reshape", "broadcast_to"}  # as permute_dims
    folded = {"shape_to_tensor"}  # where sizes are known, which they are in these networks
    assert set(RULES) - moved - folded <= kinds | {
        k for k, other in twins.items() if other in kinds
    }


def test_rounded_references_differ() -> None:
    case = next(case for case in CASES if case.name == "matrix product")
    inputs = case.inputs()
    exact = reference(case)(inputs)
    off = {
        factors: float(np.abs(reference(case, factors)(inputs) - exact).max() / np.abs(exact).max())
        for factors in ROUNDING
    }
    assert off["fp32"] == 0
    assert 1e-4 < off["tf32"] < 2e-3
    assert off["fp16"] == pytest.approx(off["tf32"], rel=0.1)
    assert 4 * off["fp16"] < off["bf16"] < 2e-2


def test_compare() -> None:
    expected = np.array([1.0, -4.0])
    assert compare(np.array([1.0, -4.00001], "float32"), expected) == "error 2.5e-06"
    for wrong in ([1.0, -4.001], [np.nan, -4.0], [1.0, -np.inf]):
        with pytest.raises(KernelFault, match="is off by"):
            compare(np.array(wrong, "float32"), expected)
    with pytest.raises(KernelFault, match="shape"):
        compare(np.ones((1, 2), "float32"), expected)


@pytest.mark.slow
def test_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    """All checks of this machine, as a user runs them."""
    assert main(["selftest", "--json", "--threads", "2"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"]
    assert result["environment"]["cpu"]["cores"] == os.cpu_count()
    checks = {check["name"]: check for check in result["checks"]}
    assert {check["status"] for check in checks.values()} == {OK}
    assert checks["threads"]["detail"].startswith("2 of ")
    assert set(checks) > {case.name for case in CASES}
    assert {check["group"] for check in checks.values()} == {
        "machine", "kernels", "stages", "network", "half precision",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["znver3", "alderlake"])
def test_an_older_cpu(cpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels of narrower vectors, and of other instructions, on a newer processor."""
    target = {"kind": "llvm", "mcpu": cpu, "mtriple": "x86_64-unknown-linux-gnu"}
    try:
        check_runnable(tvm.target.Target(target))
    except TargetError:
        pytest.skip(f"this machine does not run {cpu}")
    assert main(["selftest", "--json", "--threads", "2", "--target", json.dumps(target)]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert {check["status"] for check in checks.values()} == {OK}
    assert checks["vector width"]["detail"].endswith(f"as {cpu}")


def test_without_a_device_nothing_else_is_run(
    plans: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PLANS, "llvm", "support.selftest_plans:plan")
    assert main(["selftest", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["ok"]
    outcomes = [Outcome(**check) for check in result["checks"]]
    first, *rest = outcomes
    assert (first.group, first.name, first.status) == ("device", "first", FAILED)
    assert len(rest) == 12
    assert {(o.status, o.detail) for o in rest} == {(NOT_RUN, "first has failed")}
    # The same as lines.
    monkeypatch.setattr(selftest, "run", lambda _settings: iter(outcomes))
    assert main(["selftest"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "device"
    assert lines[1].startswith("  FAILED first")
    assert "The device is not there." in lines[1]
    assert lines[2] == "0 ok, 1 failed, 0 left out, 12 not run"


def test_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    for line, sentence in (
        ("--target cuda --threads 2", "number of threads is for a CPU"),
        ("--cudnn", "cuDNN is for CUDA devices"),
        ("--target nothing", "TVM does not know the target"),
        ("--device-id x", "invalid whole number value"),
    ):
        assert main(["selftest", *line.split()]) == 4
        assert_one_sentence(capsys.readouterr(), sentence)


def on_fake_driver(
    fake_driver: Path, plan: str, variables: dict[str, str] | None = None
) -> list[dict[str, str]]:
    """Outcomes of a plan in a process to which the fake driver is CUDA."""
    code = (
        "import json\n"
        "from dataclasses import asdict\n"
        "from tvm_ios.selftest import Settings\n"
        "from tvm_ios.selftest.supervisor import run_plan\n"
        f"found = run_plan('support.selftest_plans:{plan}', Settings('cuda'))\n"
        "print(json.dumps([asdict(outcome) for outcome in found]))"
    )
    environment = with_fake_driver(fake_driver)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | (variables or {}), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_gpu(fake_driver: Path) -> None:
    found = on_fake_driver(fake_driver, "first_of_cuda")
    assert [(o["name"], o["status"]) for o in found] == [
        (name, OK) for name in (
            "driver and device", "compiler", "memory", "one kernel", "fork and join of streams",
            "capture and replay of a graph", "times by events",
        )
    ]  # fmt: skip
    assert found[0]["detail"].startswith("Stand-in 0, sm_90, 132 multiprocessors")
    assert found[1]["detail"] == str(find_toolchain())
    assert found[4]["detail"].endswith("3 streams")


@pytest.mark.slow
def test_products_of_products_on_a_gpu(fake_driver: Path) -> None:
    """The reference rounds what a network is given, and kernels what passes between them, too."""
    found = on_fake_driver(fake_driver, "products_of_cuda")
    assert [o["name"] for o in found] == ["attention", "attention with a bias"] * 3
    for precision, outcome in zip(np.repeat(["tf32", "fp16", "bf16"], 2), found, strict=True):
        assert outcome["status"] == OK, outcome
        assert f"gemm_{precision}" in outcome["detail"]


@pytest.mark.slow
def test_a_gpu_that_computes_nothing(fake_driver: Path) -> None:
    found = on_fake_driver(fake_driver, "first_of_cuda", {"TVM_IOS_FAKE_DRIVER_COMPUTE": "0"})
    wrong = {o["name"]: o["detail"] for o in found if o["status"] == FAILED}
    assert set(wrong) == {
        "one kernel", "fork and join of streams", "capture and replay of a graph",
    }  # fmt: skip
    assert wrong["one kernel"].startswith("dlight_Fallback is off by nan")


@pytest.mark.slow
def test_a_gpu_that_fails_at_a_launch(fake_driver: Path) -> None:
    """Each process meets the failure at its second launch; the first check needs but one."""
    found = on_fake_driver(
        fake_driver, "first_of_cuda", {"TVM_IOS_FAKE_DRIVER_FAIL": "cuLaunchKernel:2:719"}
    )
    status = {o["name"]: (o["status"], o["detail"]) for o in found}
    assert status["one kernel"][0] == OK
    assert status["fork and join of streams"][0] == FAILED
    assert "CUDA device 0 has failed" in status["fork and join of streams"][1]
    assert "restart the program" in status["fork and join of streams"][1]
    assert len(found) == 7
