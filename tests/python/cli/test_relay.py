# SPDX-License-Identifier: Apache-2.0
"""The command line takes a Relay model where it takes an ONNX model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tvm_ios_runtime
from support.cli import assert_one_sentence
from support.relay.samples import check_outputs, parameters, save_weights
from support.relay.text import SAMPLES
from tvm_ios.cli.main import main
from tvm_ios.frontend.models import load_model

MODEL = str(SAMPLES / "branches.relay")
OPEN = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(4, 3), float32]) {
  nn.dense(%x, %w, units=4)
}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_weights("branches", tmp_path / "b.params")
    save_weights("mlp", tmp_path / "mlp.params")
    (tmp_path / "open.relay").write_text(OPEN)
    return tmp_path


def _outputs(library: Path) -> list[np.ndarray]:
    return list(tvm_ios_runtime.load(str(library))(*parameters("branches")[0]))


def test_compile(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--params", "b.params", "--threads", "2"]
    unsearched = [
        "compile",
        MODEL,
        *common,
        "-o",
        "m.so",
        "--no-search",
        "--schedule-out",
        "s.json",
    ]
    assert main(unsearched) == 0
    check_outputs("branches", _outputs(here / "m.so"))
    other = MODEL.replace(".relay", ".json")
    assert main(["compile", other, *common, "-o", "n.so", "--schedule-in", "s.json"]) == 0
    check_outputs("branches", _outputs(here / "n.so"))
    assert main(["bench", MODEL, *common, "--schedule-in", "s.json", "--json"]) == 0
    assert '"scheduled_ms"' in capsys.readouterr().out


BAD_INPUT = {
    "no model": (["bench", "none.relay"], "There is no model none.relay; give an ONNX file"),
    "no file of weights": (["bench", MODEL, "--params", "none"], "Cannot read none"),
    "other weights": (["bench", MODEL, "--params", "mlp.params"], "no parameter 'fc1_bias'"),
    "weights of a network": (
        ["bench", "zoo:squeezenet", "--params", "b.params"], "contains its weights"
    ),
    "open dimension": (["bench", "open.relay"], "open: x.0 of x; fix them with --dim x.0=1"),
    "unknown input": (["bench", MODEL, "--input-shapes", "y:[1]"], "has no input 'y'; its inputs"),
    "fixed dimension": (
        ["bench", "open.relay", "--input-shapes", "x:[2,4]"], "fixes dimension 1 of input 'x' to 3"
    ),
    "wrong rank": (["bench", "open.relay", "--input-shapes", "x:[2]"], "has 2 dimensions"),
    "fixed batch": (["bench", MODEL, "--batch", "2"], "leaves its first dimension open"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(here: Path, case: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments, message = BAD_INPUT[case]
    before = set(os.listdir())
    assert main(arguments) == 4
    assert_one_sentence(capfd.readouterr(), message)
    assert set(os.listdir()) == before


def test_open_dimensions(here: Path) -> None:
    for given in ({"batch": 5}, {"input_shapes": {"x": (5, 3)}}):
        mod = load_model("open.relay", **given)
        shapes = [[int(n) for n in p.ty.shape.values] for p in mod["main"].params]
        assert shapes == [[5, 3], [4, 3]]
