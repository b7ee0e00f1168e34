# SPDX-License-Identifier: Apache-2.0
"""The benchmark for a lent GPU as a command, and the kit that calls it and the package."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gpu_phases.results import DONE, FACTS, read
from support.cuda.fake_driver import with_fake_driver
from support.paths import ROOT
from support.published import PUBLISHED
from tvm_ios_env.gpu import gpus

SCRIPT = ROOT / "benchmarks" / "gpu.py"
KIT = ROOT.parent / "shared" / "tools" / "gpu" / "lease.py"

without_gpu = pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU")


def command(*arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True, text=True, check=False, **settings,
    )  # fmt: skip


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command("--only", "cpu", "--out", tmp_path / "file" / "out")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert "cannot be written: Not a directory;" in done.stderr

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))

    arguments = ["--only", "cpu", "--minutes", "0.01", "--out", tmp_path / "full"]
    done = command(*arguments, preexec_fn=small)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert "cannot be written: File too large; what was measured before is there" in done.stderr
    assert list(tmp_path.glob("full*/**/.*")) == []
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


def test_on_the_fake_driver(fake_driver: Path, tmp_path: Path) -> None:
    """A search and its timeline, and a second call that has nothing left to do."""
    out, state = tmp_path / "out", tmp_path / "out-state"
    arguments = ["--minutes", "9", "--networks", "nasrnn_small", "--only", "gpu", "--out", out]
    for _ in range(2):
        done = command(*arguments, env=with_fake_driver(fake_driver), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("All is done.\n")
    assert done.stdout.count("\n") == 1
    assert {path.name for path in out.iterdir()} == PUBLISHED
    known = read(out)
    assert list(known) == [FACTS, "toolchain", "gpu-nasrnn_small", "timeline-nasrnn_small"]
    assert known[FACTS]["device"] == "Stand-in 0"
    stages = known["gpu-nasrnn_small"]["result"]["stages"]
    beside = stages["unsearched, beside peers"]
    assert set(beside["left_out"]) == {
        "torch_eager", "torch_cudnn", "torch_reduce_overhead", "tensorrt",
    }  # fmt: skip
    timings = stages["searched"]["timings"]
    assert set(timings) == {"launched", "sequential", "greedy", "scheduled", "barriers"}
    for found in timings.values():
        assert set(found["back_to_back_ms"]) == {"median", "p10", "p90", "samples"}
        assert len(found["latency_ms"]["samples"]) > len(found["back_to_back_ms"]["samples"]) > 10
        assert set(found["sm_mhz"]) == {None}  # the fake driver has no clock
    assert "cannot be read" in (out / "clocks.csv").read_text()
    assert (state / "gpu.sqlite3").stat().st_size > 0
    with tarfile.open(out / "raw.tar.gz") as archive:
        packed = {name for name in archive.getnames() if name.endswith(".json")}
        for name in packed:
            assert json.load(archive.extractfile(name))  # type: ignore[arg-type]
    assert packed == {
        "schedules/gpu-nasrnn_small-unsearched.json", "schedules/gpu-nasrnn_small.json",
        "timelines/gpu-nasrnn_small.json",
    }  # fmt: skip
    assert "| nasrnn_small | " in (out / "summary.md").read_text()
    assert command("--table", out).stdout == (out / "summary.md").read_text()


@pytest.mark.skipif(not KIT.exists(), reason="the kit of a lent machine is not beside the checkout")
def test_the_kit_of_a_lent_machine(fake_driver: Path, tmp_path: Path) -> None:
    """It calls what is in the package and in ``gpu_phases`` by the names that it has there."""
    (tmp_path / "site").mkdir()
    folders = {"site": tmp_path / "site", "out": tmp_path / "out", "state": tmp_path / "state"}
    arguments = [f"--{name}={path}" for name, path in folders.items()]
    arguments += [f"--fake={fake_driver}", "--seconds=300", "--only=facts,gpu"]
    done = subprocess.run(
        [sys.executable, str(KIT), *arguments, "--gpu-networks=nasrnn_small"],
        env=with_fake_driver(fake_driver), cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    known = {record["name"]: record for record in map(json.loads, lines)}
    assert {n: r["failure"] for n, r in known.items() if "failure" in r} == {}
    assert list(known) == ["facts", "toolchain", "gpu-nasrnn_small-search"]
    assert known["gpu-nasrnn_small-search"]["reached"][-1] == "done"


def test_on_the_cpu(tmp_path: Path) -> None:
    """One thread, without a search."""
    out = tmp_path / "out"
    done = command("--networks", "randwire_tiny", "--only", "cpu", "--threads", "1", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    known = read(out)
    assert list(known) == [FACTS, "cpu-randwire_tiny-1", "peak"]
    assert {record["status"] for name, record in known.items() if name != FACTS} == {DONE}
    result = known["cpu-randwire_tiny-1"]["result"]
    assert set(result["ms"]) == set(result["samples_ms"]) == {"unsearched", "onnxruntime"}
    assert result["max_rel_error"] < 1e-5
    assert known["peak"]["result"]["fma_gflops"]["1"] > 0
    with tarfile.open(out / "raw.tar.gz") as archive:
        assert "timelines/cpu-randwire_tiny-1-unsearched.json" in archive.getnames()


@pytest.mark.slow
def test_checks_and_a_search_on_the_cpu(fake_driver: Path, tmp_path: Path) -> None:
    """What runs side by side, and what is timed under all schedules on several threads."""
    out = tmp_path / "out"
    arguments = ["--networks", "nasrnn_small", "--only", "checks,cpu", "--threads", "2"]
    done = command(*arguments, "--out", out, env=with_fake_driver(fake_driver), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    known = read(out)
    answers = known["answers-nasrnn_small"]["result"]
    assert max(answers["max_rel_errors"]) < 1e-5
    assert any(answers["kernels"].values())
    assert len(known["selftest"]["result"]["checks"]) > 10  # some of which the fake fails
    result = known["cpu-nasrnn_small-2"]["result"]
    assert set(result["ms"]) == {
        "unsearched", "sequential", "greedy", "scheduled", "barriers", "onnxruntime",
    }  # fmt: skip
    assert result["requests"].keys() == {"prepare", "search", "time", "trace"}
