# SPDX-License-Identifier: Apache-2.0
"""The benchmark for a lent GPU: its file, its table, and what it says where there is none."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

import gpu
from tvm_ios_env.gpu import gpus

RESULTS = {
    "device": "NVIDIA X1",
    "arch": "sm_90",
    "precision": "fp32",
    "networks": {
        "one": {
            "launched_ms": 4.0,
            "sequential_ms": 2.0,
            "greedy_ms": 1.5,
            "scheduled_ms": 1.0,
            "peers": {"torch_compile": {"ms": 3.0}, "torch_cudnn": {"left_out": "for a reason"}},
        },
        "two": {"sequential_ms": 8.0, "greedy_ms": 1.0, "scheduled_ms": 1.0},
        "three": {"failure": "took more than 60 s", "scheduled_ms": 1.0},
    },
}


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(RESULTS))
    assert gpu.main(["--table", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| one | 4.000 | 2.000 | 1.500 | 1.000 | 3.000 | – |" in lines
    # Of 2 and 8; of the one network that has a figure; of none.
    assert "| ÷ scheduled | 4.00 | 4.00 | 1.22 | 1.00 | 3.00 | – |" in lines
    assert "one, PyTorch, cuDNN: for a reason" in lines
    assert "three: took more than 60 s" in lines


def arguments() -> argparse.Namespace:
    return gpu._arguments([])


def command(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a script run in place of Python."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    monkeypatch.setattr(gpu.sys, "executable", str(script))


def test_what_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command("exit 4", tmp_path, monkeypatch)
    assert "ended with 4" in gpu.bench("one", arguments(), 10)["failure"]
    command("exec sleep 10", tmp_path, monkeypatch)
    assert "run it again" in gpu.bench("one", arguments(), 0.1)["failure"]
    command("""echo '{"max_rel_error": NaN}'""", tmp_path, monkeypatch)
    assert "wrong by nan" in gpu.bench("one", arguments(), 10)["failure"]


def test_what_is_known_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert gpu._known(path, {"device": "NVIDIA X1"}) == {"networks": {}}
    path.write_text(json.dumps(RESULTS))
    assert gpu._known(path, {"device": "NVIDIA X1"}) == RESULTS
    assert gpu._known(path, {"device": "NVIDIA X2"}) == {"networks": {}}


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU")
def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main([]) == 4
    assert capsys.readouterr().err.startswith("error: CUDA's driver is not here")
