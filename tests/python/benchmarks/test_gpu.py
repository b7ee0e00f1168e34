# SPDX-License-Identifier: Apache-2.0
"""The benchmark for a lent GPU: steps are done, cut, or fail, and all of them are told of."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import gpu
from gpu_phases.results import CUT, DONE, FAILED, FolderError, Results
from gpu_phases.runner import Phase
from gpu_phases.steps import ANSWERS, CPU, KINDS, SELFTEST, Request, Step, plan, powers_of_two
from gpu_phases.tables import summary
from support.cuda.fake_driver import with_fake_driver
from support.paths import ROOT
from tvm_ios_env.gpu import gpus

SCRIPT = ROOT / "benchmarks" / "gpu.py"
ABOUT = {"device": "NVIDIA X1"}

without_gpu = pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU")


def step(name: str, code: str, *, kind: str = CPU, most: float = 60, **others: Any) -> Step:
    """A step that runs Python."""
    return Step(name, kind, (sys.executable, "-c", code), most, least=0.1, **others)


def run(folder: Path, steps: list[Step], seconds: float = 60, **again: Any) -> tuple[str, dict]:
    """What a phase says, and what is known after it, as another process would read it."""
    said = Phase(Results(folder, ABOUT), seconds, 0, **again).run(steps)
    return said, Results(folder, ABOUT).steps


def test_the_order_of_steps() -> None:
    request = Request(networks=("one", "two"), threads=(1, 2))
    names = [s.name for s in plan(request)]
    assert names[:5] == [
        "selftest", "answers-one", "answers-two", "baselines-one", "baselines-two",
    ]  # fmt: skip
    tests = [name for name in names if name.startswith("tests-")]
    assert len(tests) == len(list((ROOT / "tests" / "gpu").glob("test_*.py")))
    assert names[5 : 5 + len(tests)] == tests
    assert names[5 + len(tests) :] == [
        "search-one", "timeline-one", "search-two", "timeline-two",
        "cpu-one-1", "cpu-one-2", "cpu-two-1", "cpu-two-2",
    ]  # fmt: skip
    assert [s.kind for s in plan(request)] == sorted(
        (s.kind for s in plan(request)), key=KINDS.index
    )
    halves = plan(Request(networks=("one",), precision="fp16", kinds=(ANSWERS,)))
    assert [s.name for s in halves] == ["answers-one-fp16"]
    assert halves[0].command[-2:] == ("--precision", "fp16")


def test_threads() -> None:
    assert powers_of_two(1) == [1]
    assert powers_of_two(6) == [1, 2, 4, 6]
    assert powers_of_two(16) == [1, 2, 4, 8, 16]


def test_what_comes_of_steps(tmp_path: Path) -> None:
    steps = [
        step("right", "print('{\"x\": 1}')"),
        step("wordless", "open('/dev/null')", prints=False),
        step("fails", "import sys; sys.exit('error: there is no such thing.')"),
        step("garbled", "print('no JSON')"),
        step("sorry", 'print(\'{"failure": "it was wrong"}\')'),
        step("found", "print('{}'); raise SystemExit(1)", statuses=(0, 1)),
        step("close", "print('{\"max_rel_error\": 0.05}')", tolerance=0.1),
        step("far", "print('{\"max_rel_error\": NaN}')", tolerance=0.1),
    ]
    said, known = run(tmp_path, steps)
    assert said == "All steps are done but for fails, garbled, sorry, far."
    assert known["right"]["result"] == {"x": 1}
    status = {name: (record["status"], record.get("failure")) for name, record in known.items()}
    assert list(known) == [s.name for s in steps]
    assert status == {
        "right": (DONE, None),
        "wordless": (DONE, None),
        "found": (DONE, None),
        "close": (DONE, None),
        "fails": (FAILED, "ended with status 1: there is no such thing."),
        "garbled": (FAILED, "printed no JSON object: 'no JSON\\n'"),
        "sorry": (FAILED, "it was wrong"),
        "far": (FAILED, "wrong by nan of the largest output"),
    }
    assert set(known["right"]["gpu_before"]) == {"sm_mhz", "memory_mhz", "celsius", "watts"}
    assert "there is no such thing" in (tmp_path / "stderr" / "fails.txt").read_text()
    assert "- fails: failed, ended with status 1" in (tmp_path / "summary.md").read_text()


def test_a_step_that_is_cut_goes_on(tmp_path: Path) -> None:
    """The first phase ends in its middle, the second has what is done and goes on."""
    noted = tmp_path / "noted"
    code = f"""
import pathlib, time
noted = pathlib.Path({str(noted)!r})
if noted.exists():
    print("{{}}")
else:
    noted.touch()
    time.sleep(600)
"""
    counted = step("counted", f"open({str(tmp_path / 'n')!r}, 'a').write('x'); print('{{}}')")
    steps = [counted, step("slow", code), step("last", "print('{}')")]
    said, known = run(tmp_path, steps, seconds=5)
    assert said == "The time is over with 1 steps left; run it again to go on."
    assert known["slow"]["status"] == CUT
    assert "last" not in known
    said, known = run(tmp_path, steps)
    assert known["slow"]["status"] == known["last"]["status"] == DONE
    assert (tmp_path / "n").read_text() == "x"  # what was done, or has failed, is not repeated


def test_what_does_not_fit_is_given_up(tmp_path: Path) -> None:
    steps = [step("endless", "import time; time.sleep(600)", most=0.3), step("last", "print('{}')")]
    _, known = run(tmp_path, steps)
    assert (known["endless"]["status"], known["last"]["status"]) == (FAILED, DONE)
    endless = [step("cut", "import time; time.sleep(600)")]
    for expected in (CUT, FAILED):
        _, known = run(tmp_path, endless, seconds=3.5)
        assert known["cut"]["status"] == expected


def test_again(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    code = f"f = open({str(counter)!r}, 'a'); f.write('x'); f.close(); raise SystemExit('bad')"
    bad, good = step("bad", code), step("good", "print('{}')")
    for again, count in (([], 1), ([], 1), (["good"], 1), (["bad"], 2), (["failed"], 3)):
        run(tmp_path, [bad, good], again=again)
        assert len(counter.read_text()) == count


@without_gpu
def test_a_gpu_that_is_lost_ends_the_phase(tmp_path: Path) -> None:
    steps = [step("one", "raise SystemExit('CUDA error')", kind=SELFTEST), step("two", "")]
    said, known = run(tmp_path, steps)
    assert said.startswith("The GPU is lost (no NVIDIA driver")
    assert set(known) == {"one"}


def test_another_device_has_a_folder_of_its_own(tmp_path: Path) -> None:
    run(tmp_path, [])
    with pytest.raises(FolderError, match="has results of NVIDIA X1, and this is NVIDIA X2"):
        Results(tmp_path, {"device": "NVIDIA X2"})


def test_a_file_that_was_cut_off_is_nothing(tmp_path: Path) -> None:
    run(tmp_path, [step("one", "print('{}')")])
    (tmp_path / "steps" / "one.json").write_text('{"status": "do')
    assert Results(tmp_path, ABOUT).steps == {}


def command(*arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True, text=True, check=False, **settings,
    )  # fmt: skip


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command("--only", "cpu", "--out", tmp_path / "file" / "out")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert "cannot be written to: Not a directory." in done.stderr

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))

    done = command("--only", "cpu", "--out", tmp_path / "full", preexec_fn=small)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert "cannot be written: File too large; what was measured before is there" in done.stderr
    assert list((tmp_path / "full").glob("**/.*")) == []
    done = command("--table", tmp_path / "none")
    assert done.returncode == 4
    assert "has no results" in done.stderr


@without_gpu
def test_without_a_gpu(tmp_path: Path) -> None:
    done = command("--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("error: There is no GPU: no NVIDIA driver")
    assert not (tmp_path / "out").exists()


def test_parts_that_are_missing() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPT)], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert "No module named 'tvm_ios_env'; put the folder with" in done.stderr


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_step_is_left_behind(end: signal.Signals, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    code = f"""
import signal, sys, time
sys.path[:0] = [{str(ROOT / "benchmarks")!r}]
from pathlib import Path
from gpu_phases.results import Results
from gpu_phases.runner import Phase
from gpu_phases.steps import CPU, Step
signal.signal(signal.SIGTERM, signal.default_int_handler)
wait = "import os, pathlib, time; pathlib.Path({str(noted)!r}).write_text(str(os.getpid()))"
command = (sys.executable, "-c", wait + "; time.sleep(600)")
Phase(Results(Path({str(tmp_path)!r}), {{"device": "X"}}), 600, 0).run(
    [Step("wait", CPU, command, 600)])
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    wait_for(lambda: noted.exists() and noted.read_text())
    process.send_signal(end)
    process.wait(timeout=30)
    wait_for(lambda: not Path("/proc", noted.read_text()).exists())


def wait_for(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def timing(back_to_back: float, latency: float) -> dict[str, Any]:
    return {"back_to_back_ms": {"median": back_to_back}, "latency_ms": {"median": latency}}


def test_summary() -> None:
    checks = [
        {"group": "a", "name": "b", "status": "ok", "detail": "fine"},
        {"group": "a", "name": "c", "status": "failed", "detail": "it was wrong"},
    ]
    contest = {"sequential": timing(2.0, 2.5), "torch_compile": timing(3.0, 3.5)}
    second = {"sequential": timing(1.0, 1.5), "scheduled": timing(0.5, 0.75)}
    steps = {
        "selftest": {"status": DONE, "result": {"checks": checks}},
        "answers-one": {
            "status": DONE, "result": {"max_rel_errors": [1e-6, 3e-6], "reference": "PyTorch"},
        },
        "baselines-one": {"status": DONE, "result": {"timings": contest}},
        "search-two": {"status": DONE, "result": {"timings": second}},
        "search-three": {"status": CUT, "failure": "took more than 60 s"},
        "tests-runs": {"status": FAILED, "result": {"tests": {"x": "passed", "y": "failed: so"}}},
        "cpu-one-4": {
            "status": DONE,
            "result": {"network": "one", "threads": 4, "median_ms": {"scheduled": 1.5}},
        },
    }  # fmt: skip
    text = summary(ABOUT, steps)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "# NVIDIA X1"
    assert "## Self-test: 1 of 2 checks are ok" in lines
    assert "- a, c: failed, it was wrong" in lines
    assert "| one | 3.0e-06 | PyTorch |" in lines
    assert "| one | 2.000 (2.500) | 3.000 (3.500) |" in lines
    assert "| ÷ sequential | 1.00 | 1.50 |" in lines
    assert "| ÷ scheduled | 2.00 | 1.00 |" in lines
    assert "- runs: 1 of 2 passed" in lines
    assert "- y: failed: so" in lines
    assert "| one | 4 | 1.50 |" in lines
    assert "- search-three: cut, took more than 60 s" in lines
    assert "three" not in "".join(lines[: lines.index("## Not done")])


@pytest.mark.slow
def test_on_the_fake_driver(fake_driver: Path, tmp_path: Path) -> None:
    """From answers to a timeline, and a second phase that has nothing left to do."""
    out = tmp_path / "out"
    arguments = ["--networks", "nasrnn_small", "--only", "answers,baselines,search", "--out", out]
    for expected in ("answers-nasrnn_small: done", "All is done."):
        done = command(*arguments, env=with_fake_driver(fake_driver), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
        assert done.stdout.endswith("All is done.\n")
    assert done.stdout.count("\n") == 1
    steps = Results(out, {"device": "Stand-in 0"}).steps
    assert {record["status"] for record in steps.values()} == {DONE}
    assert max(steps["answers-nasrnn_small"]["result"]["max_rel_errors"]) < 1e-5
    assert any(steps["answers-nasrnn_small"]["result"]["kernels"].values())
    timings = steps["search-nasrnn_small"]["result"]["timings"]
    assert set(timings) >= {"launched", "sequential", "greedy", "scheduled"}
    for found in timings.values():
        assert set(found["back_to_back_ms"]) == {"median", "p10", "p90", "samples"}
        assert len(found["latency_ms"]["samples"]) > len(found["back_to_back_ms"]["samples"]) > 10
        assert set(found["sm_mhz"]) == {None}  # the fake driver has no clock
    left_out = steps["baselines-nasrnn_small"]["result"]["left_out"]
    assert set(left_out) == {"torch_compile", "torch_cudnn", "tensorrt"}
    for folder in ("schedules", "timelines"):
        assert json.loads((out / folder / "search-nasrnn_small.json").read_text())
    assert "cannot be read" in (out / "clocks.csv").read_text()
    assert "| nasrnn_small |" in (out / "summary.md").read_text()
    assert (out / "database.sqlite3").stat().st_size > 0
    assert gpu.main(["--table", str(out)]) == 0
