# SPDX-License-Identifier: Apache-2.0
"""The benchmark for a lent GPU: steps are done, cut, or fail, and all of them are told of."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_phases.messages import merged
from gpu_phases.results import CUT, DONE, FACTS, FAILED, FolderError, Results
from gpu_phases.runner import Phase
from gpu_phases.steps import CHECKS, CPU, GPU, Request, Step, Task, plan, thread_counts
from gpu_phases.tables import summary
from support.paths import ROOT
from support.published import PUBLISHED
from tvm_ios_env.gpu import gpus

DEVICE = {"device": "NVIDIA X1"}

without_gpu = pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU")


def step(name: str, code: str, *, most: float = 60, on_gpu: bool = False, **others: Any) -> Step:
    """A step that runs Python."""
    return Step(name, CPU, (sys.executable, "-c", code), most, 0.1, on_gpu, **others)


def results(folder: Path) -> Results:
    return Results(folder / "state", folder / "out", DEVICE)


def run(
    folder: Path, tasks: list[Step | Task], seconds: float = 60, **again: Any
) -> tuple[str, dict[str, Any]]:
    """What a phase says, and what is known after it, as another process would read it."""
    given = [task if isinstance(task, Task) else Task((task,)) for task in tasks]
    said = Phase(results(folder), seconds, 0, **again).run(given)
    return said, results(folder).steps


def names(request: Request) -> list[list[str]]:
    return [[step.name for step in task.steps] for task in plan(request)]


def test_the_order_of_steps(tmp_path: Path) -> None:
    networks = ("one", "two", "three")
    found = names(Request(tmp_path, networks, threads=(4, 1, 2)))
    assert found[:2] == [
        ["toolchain"],
        ["selftest", "answers-one", "warm-one", "answers-two", "warm-two"],
    ]
    assert found[2:12] == [
        ["gpu-one"],
        ["cpu-one-4"], ["cpu-two-4"], ["cpu-three-4"], ["peak"],
        ["gpu-two"],
        ["cpu-one-1", "cpu-two-1", "cpu-three-1"], ["cpu-one-2", "cpu-two-2", "cpu-three-2"],
        ["gpu-three"], ["answers-three"],
    ]  # fmt: skip
    rest = [name for task in found[12:] for name in task]
    tests = {f"tests-{p.stem[5:]}" for p in (ROOT / "tests" / "gpu").glob("test_*.py")}
    assert rest[0] == "timeline-one"
    assert rest[-1] == "tests-sanitizer"
    assert set(rest[1:]) - {"ncu"} == tests
    searched = [s.name for t in plan(Request(tmp_path, networks)) for s in t.steps
                if s.kind == GPU and "--database" in s.command]  # fmt: skip
    assert searched == ["gpu-one", "gpu-two"]


def test_kinds_and_precisions(tmp_path: Path) -> None:
    halves = Request(tmp_path, ("one",), precision="fp16", kinds=(CHECKS,))
    assert names(halves) == [
        ["toolchain"], ["selftest", "answers-one-fp16", "warm-one-fp16"],
    ]  # fmt: skip
    assert plan(halves)[1].steps[1].command[-2:] == ("--precision", "fp16")
    assert names(Request(tmp_path, ("one",), kinds=(GPU,)))[0] == ["toolchain"]
    on_cpu = Request(tmp_path, ("one",), kinds=(CPU,), threads=(2, 1))
    assert names(on_cpu) == [["cpu-one-2"], ["peak"], ["cpu-one-1"]]


def test_threads() -> None:
    assert thread_counts(1) == [1]
    assert thread_counts(2) == [2, 1]
    assert thread_counts(6) == [6, 1, 4, 2]
    assert thread_counts(16) == [16, 1, 8, 4, 2]


def test_messages() -> None:
    said = '{"a": {"x": 1}}\nnoise\n{"a": {"y": 2}, "b": 3}\n[1]\n{"a": {"x": 4}}\n{"b": '
    assert merged(said) == {"a": {"x": 4, "y": 2}, "b": 3}
    assert merged('{\n "a": 1\n}\n') == {"a": 1}
    assert merged("") == {}


def test_what_comes_of_steps(tmp_path: Path) -> None:
    steps = [
        step("right", "print('{\"x\": 1}')"),
        step("wordless", "print('no JSON')"),
        step("fails", "import sys; sys.exit('error: there is no such thing.')"),
        step("sorry", 'print(\'{"failure": "it was wrong", "x": 2}\')'),
        step("early", "", needs=tmp_path / "nothing"),
    ]
    said, known = run(tmp_path, steps)
    assert said == "All steps are done but for fails, sorry."
    found = {n: (r["status"], r.get("failure"), r["result"]) for n, r in known.items()}
    assert found == {
        "right": (DONE, None, {"x": 1}),
        "wordless": (DONE, None, {}),
        "fails": (FAILED, "ended with status 1: there is no such thing.", {}),
        "sorry": (FAILED, "it was wrong", {"x": 2}),
    }
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == PUBLISHED
    assert "- fails: failed, ended with status 1" in (out / "summary.md").read_text()
    assert "sorry: failed in" in (out / "log.txt").read_text()
    with tarfile.open(out / "raw.tar.gz") as archive:
        errors = archive.extractfile("stderr/fails.txt")
        assert errors is not None
        assert b"there is no such thing" in errors.read()


def test_a_step_that_is_cut_goes_on(tmp_path: Path) -> None:
    """The first phase ends in its middle, the second has what is done and goes on."""
    noted = tmp_path / "noted"
    code = f"""
import pathlib, time
noted = pathlib.Path({str(noted)!r})
print('{{"stages": {{"%s": 1}}}}' % noted.exists(), flush=True)
if not noted.exists():
    noted.touch()
    print('{{"half": ', end="", flush=True)
    time.sleep(600)
"""
    counted = step("counted", f"open({str(tmp_path / 'n')!r}, 'a').write('x')")
    steps = [counted, step("slow", code), step("last", "", most=9)]
    said, known = run(tmp_path, steps, seconds=7.5)
    assert said == "The time is over with 1 steps left; run it again to go on."
    assert (known["slow"]["status"], known["slow"]["cuts"]) == (CUT, 0)
    assert known["slow"]["result"] == {"stages": {"False": 1}}
    assert "last" not in known
    said, known = run(tmp_path, steps)
    assert said == "All is done."
    assert known["slow"]["status"] == known["last"]["status"] == DONE
    assert known["slow"]["result"] == {"stages": {"False": 1, "True": 1}}
    assert (tmp_path / "n").read_text() == "x"  # what was done, or has failed, is not repeated


def test_what_never_fits_comes_last(tmp_path: Path) -> None:
    """A step that was cut twice at its own limit is begun again when others have been tried."""
    endless = step("endless", "import time; time.sleep(600)", most=0.3)
    for cuts in (1, 2):
        _, known = run(tmp_path, [endless])
        assert (known["endless"]["status"], known["endless"]["cuts"]) == (CUT, cuts)
    _, known = run(tmp_path, [endless, step("last", "")])
    log = (tmp_path / "out" / "log.txt").read_text()
    assert log.rindex("endless: ") > log.rindex("last: ")
    assert (known["endless"]["cuts"], known["last"]["status"]) == (3, DONE)
    run(tmp_path, [Task((endless, step("new", "")))])
    assert "new, endless: " in (tmp_path / "out" / "log.txt").read_text()


def test_steps_side_by_side(tmp_path: Path) -> None:
    """They run at the same time, and none waits for those in the background."""
    one, other = tmp_path / "one", tmp_path / "other"
    code = """
import pathlib, time
pathlib.Path({!r}).touch()
while not pathlib.Path({!r}).exists():
    time.sleep(0.01)
"""
    steps = (
        step("one", code.format(str(one), str(other))),
        step("other", code.format(str(other), str(one))),
        step("behind", "import time; time.sleep(600)", background=True),
        step("over", "import time; time.sleep(600)", most=0.2),
    )
    _, known = run(tmp_path, [Task(steps)])
    found = {name: (record["status"], record.get("cuts")) for name, record in known.items()}
    assert found == {
        "one": (DONE, None), "other": (DONE, None), "behind": (CUT, 0), "over": (CUT, 1),
    }  # fmt: skip
    assert known["behind"]["seconds"] < 30


ANSWERING = """
import json, sys
for line in sys.stdin:
    request = line.strip()
    failure = {failure!r} if request == {failing!r} else None
    print(json.dumps({{"requests": {{request: {{"failure": failure}}}}, request: 1}}), flush=True)
    if request == {last!r}:
        sys.exit("gone")
"""


def test_cells(tmp_path: Path) -> None:
    """Requests of networks on the CPU; what fails or ends early keeps what it has answered."""

    def cell(name: str, failing: str = "", last: str = "") -> Step:
        return step(name, ANSWERING.format(failing=failing, last=last, failure="so"))

    steps = (
        cell("good"),
        cell("bad", "prepare"),
        cell("worse", "search"),
        cell("gone", "", "time"),
    )
    _, known = run(tmp_path, [Task(steps, threads=2), Task((cell("single"),), threads=1)])
    found = {n: (r["status"], r.get("failure"), list(r["result"])[1:]) for n, r in known.items()}
    everything = ["prepare", "time", "search", "trace"]
    assert found == {
        "good": (DONE, None, everything),
        "bad": (FAILED, "so", ["prepare"]),
        "worse": (FAILED, "search: so", everything),
        "gone": (FAILED, "search: its process has ended: gone", ["prepare", "time"]),
        "single": (DONE, None, ["prepare", "time", "trace"]),
    }


def test_again(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    code = f"f = open({str(counter)!r}, 'a'); f.write('x'); f.close(); raise SystemExit('bad')"
    bad, good = step("bad", code), step("good", "")
    for again, count in (([], 1), ([], 1), (["good"], 1), (["bad"], 2), (["failed"], 3)):
        run(tmp_path, [bad, good], again=again)
        assert len(counter.read_text()) == count


@without_gpu
def test_a_gpu_that_is_lost_ends_the_phase(tmp_path: Path) -> None:
    steps = [step("one", "raise SystemExit('CUDA error')", on_gpu=True), step("two", "")]
    said, known = run(tmp_path, steps)
    assert said.startswith("The GPU is lost (no NVIDIA driver")
    assert set(known) == {"one"}


def test_a_gpu_that_computes_nothing_right_is_left_out(tmp_path: Path) -> None:
    checks = {"checks": {"a: b": {"status": "failed", "detail": "it was wrong"}}}
    steps = [
        step("selftest", f"print({json.dumps(checks)!r})", on_gpu=True),
        step("on-gpu", "", on_gpu=True),
        step("on-cpu", ""),
    ]
    said, known = run(tmp_path, steps)
    assert said == "1 steps that need the GPU are left out, as no check of the self-test is ok."
    assert list(known) == ["selftest", "on-cpu"]
    assert "on-gpu: left out, as no check" in (tmp_path / "out" / "log.txt").read_text()


def test_another_device_has_a_state_of_its_own(tmp_path: Path) -> None:
    run(tmp_path, [])
    with pytest.raises(FolderError, match="has results of NVIDIA X1, and this is NVIDIA X2"):
        Results(tmp_path / "state", tmp_path / "out", {"device": "NVIDIA X2"})


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_step_is_left_behind(end: signal.Signals, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    code = f"""
import signal, sys, time
sys.path[:0] = [{str(ROOT / "benchmarks")!r}]
from pathlib import Path
from gpu_phases.results import Results
from gpu_phases.runner import Phase
from gpu_phases.steps import CPU, Step, Task
signal.signal(signal.SIGTERM, signal.default_int_handler)
wait = "import os, pathlib, time; pathlib.Path({str(noted)!r}).write_text(str(os.getpid()))"
command = (sys.executable, "-c", wait + "; time.sleep(600)")
folder = Path({str(tmp_path)!r})
Phase(Results(folder / "state", folder / "out", {{"device": "X"}}), 600, 0).run(
    [Task((Step("wait", CPU, command, 600),))])
"""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", code], **quiet)
    wait_for(lambda: noted.exists() and noted.read_text())
    process.send_signal(end)
    process.wait(timeout=30)
    wait_for(lambda: not Path("/proc", noted.read_text()).exists())


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def timing(back_to_back: float, latency: float) -> dict[str, Any]:
    return {"back_to_back_ms": {"median": back_to_back}, "latency_ms": {"median": latency}}


def done(**result: Any) -> dict[str, Any]:
    return {"status": DONE, "result": result}


def test_summary() -> None:
    checks = {
        "a: b": {"status": "ok", "detail": "fine"},
        "a: c": {"status": "failed", "detail": "it was wrong"},
    }
    stages = {
        "unsearched": {"timings": {"sequential": timing(9.0, 9.5)}},
        "unsearched, beside peers": {
            "timings": {"sequential": timing(2.0, 2.5), "torch_reduce_overhead": timing(3.0, 3.5)},
        },
        "found": {"search_s": 60.0},
        "searched": {"timings": {"scheduled": timing(0.5, 0.75)}, "max_rel_error": 1e-7},
    }
    steps = {
        FACTS: DEVICE,
        "selftest": done(checks=checks),
        "answers-one": done(max_rel_errors=[1e-6, 3e-6], reference="PyTorch"),
        "gpu-one": done(stages=stages),
        "gpu-half": {"status": CUT, "failure": "took more than 60 s", "result": {}},
        "tests-runs": {"status": FAILED, "failure": "1 of 2 tests failed: y",
                       "result": {"tests": {"x": "passed", "y": "failed: so"}}},
        "cpu-one-16": done(ms={"sequential": 3.0, "scheduled": 1.5}, search_s=4.0),
        "cpu-one-4": done(ms={"unsearched": 5.0, "onnxruntime": 6.0}, max_rel_error=2e-7),
    }  # fmt: skip
    lines = [" ".join(line.split()) for line in summary(steps).splitlines()]
    assert lines[0] == "# NVIDIA X1"
    assert "## Self-test: 1 of 2 checks are ok" in lines
    assert "- a: c: failed, it was wrong" in lines
    assert "| one | 3.0e-06 | PyTorch |" in lines
    assert "| one | unsearched | 2.000 (2.500) | – | 3.000 (3.500) | – | – |" in lines
    assert "| one | searched | – | 0.500 (0.750) | – | 60.0 | 1.0e-07 |" in lines
    assert not any("9.000" in line for line in lines)  # ours alone, which is also beside peers
    few = lines.index("| one | 4 | 5.000 | – | – | – | – | 6.000 | – | – | 2.0e-07 |")
    assert lines[few + 1] == "| one | 16 | – | 3.000 | – | 1.500 | – | – | 2.000 | 4.0 | – |"
    assert "- runs: 1 of 2 passed" in lines
    assert "- y: failed: so" in lines
    assert "- gpu-half: cut, took more than 60 s" in lines
    assert "half" not in "".join(lines[: lines.index("## Not done")])
