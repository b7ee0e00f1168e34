# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios bench --throughput``: what it measures, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import tvm_ios_runtime
from support.cli import SHAPE, save_branches
from tvm_ios.cli import throughput
from tvm_ios.cli.main import main


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take little time for each turn."""
    monkeypatch.setattr(throughput, "_ROUNDS", 1)
    monkeypatch.setattr(throughput, "_TURN", 0.01)


def test_the_library_that_is_written_says_how_to_call_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_branches(tmp_path / "m.onnx", batch="N")
    library = tmp_path / "m.so"
    options = ["--throughput", "--threads", "2", "--batch-sizes", "1,3", "--json"]
    assert main(["bench", str(tmp_path / "m.onnx"), *options, "-o", str(library)]) == 0
    result = json.loads(capsys.readouterr().out)
    found = {
        (way["system"], way["threads"], way["callers"], way["batch"]) for way in result["ways"]
    }
    forms = {(2, 1), (2, 4), (1, 2)}
    expected = {("tvm_ios", *form, batch) for form in forms for batch in (1, 3)}
    expected |= {("onnxruntime", *way[1:]) for way in expected}
    assert {way for way in found if way[0] != "openvino"} == expected
    assert ("openvino" in result["left_out"]) != (("openvino", 0, 0, 3) in found)
    assert result["max_rel_error"]["onnxruntime"] < 1e-4
    assert result["ratio"] > 0
    model = tvm_ios_runtime.load(library)
    best = result["best"]
    assert model.metadata["requests"] == {"callers": best["callers"], "batch": best["batch"]}
    assert model.metadata["workers"] == best["threads"]
    image = np.random.default_rng(0).standard_normal((5, *SHAPE[1:])).astype("float32")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    np.testing.assert_allclose(
        model(image)[0], session.run(None, {"image": image})[0], rtol=1e-4, atol=1e-5
    )


def test_a_file_of_a_fixed_batch_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_branches(tmp_path / "m.onnx", batch=2)
    options = [str(tmp_path / "m.onnx"), "--throughput", "--threads", "1"]
    assert main(["bench", *options]) == 0
    printed = capsys.readouterr().out
    assert "1 caller, 1 thread a call, batch 2" in printed
    assert "batch 8" not in printed
    assert "tvm_ios ÷" in printed
    assert main(["bench", *options, "--batch-sizes", "2,8"]) != 0
    assert "fixes dimension 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--throughput", "--schedule-in", "s.json"], "--throughput and --schedule-in exclude"),
        (["--throughput", "--batch", "4"], "--throughput and --batch exclude"),
        (["--throughput", "-o", "m.onnx"], "must be named NAME.so"),
        (["--throughput", "--target", "cuda"], "--throughput is for CPUs"),
        (["--batch-sizes", "1,2"], "--batch-sizes needs --throughput"),
        (["-o", "m.so"], "--output needs --throughput"),
    ],
)
def test_arguments_that_are_at_odds(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_branches(tmp_path / "m.onnx", batch="N")
    assert main(["bench", str(tmp_path / "m.onnx"), *options]) != 0
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "m.onnx"]
