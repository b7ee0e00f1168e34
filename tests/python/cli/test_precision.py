# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios compile --precision``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.cli import assert_one_sentence
from tvm_ios import zoo
from tvm_ios.cli.main import main
from tvm_ios.schedule import Schedule

MODEL = "zoo:bert_tiny"
BOARD = json.dumps({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-x2"})


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute on processors without the instructions, too."""
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")


def compile_words(tmp_path: Path, *more: str) -> list[str]:
    schedule = str(tmp_path / "s.json")
    output = str(tmp_path / "m.so")
    return ["compile", MODEL, "-o", output, "--schedule-out", schedule, "--no-search", *more]


def test_a_tolerance_on_given_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error is that of the inputs in the file; the schedule keeps it, and show prints it."""
    random = np.random.default_rng(7)
    arrays = {
        i.name: random.integers(0, 2, i.shape).astype(i.dtype) for i in zoo.inputs("bert_tiny")
    }
    np.savez(tmp_path / "in.npz", **arrays)
    found = []
    for more in ([], ["-i", str(tmp_path / "in.npz")]):
        words = compile_words(tmp_path, "--precision", "auto", "--tolerance", "0.1", *more)
        assert main([*words, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["bf16_operators"] == printed["multiplying_operators"] == 14
        found.append(printed["rounding"])
    assert all(0 < rounding["error"] <= 0.1 == rounding["tolerance"] for rounding in found)
    assert found[0]["error"] != found[1]["error"]
    assert Schedule.load(tmp_path / "s.json").rounding.error == found[1]["error"]
    assert main(["show", str(tmp_path / "s.json")]) == 0
    assert "bf16 in 14 of 14 convolutions, products and attentions" in capsys.readouterr().out


def test_a_schedule_brings_its_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default, and with ``auto``, nothing is measured again; in float32 it is refused."""
    assert main(compile_words(tmp_path, "--precision", "bf16")) == 0
    again = [
        "compile",
        MODEL,
        "-o",
        str(tmp_path / "n.so"),
        "--schedule-in",
        str(tmp_path / "s.json"),
    ]
    for more in ([], ["--precision", "auto"]):
        capsys.readouterr()
        assert main([*again, *more]) == 0
        assert "bf16 in 14 of 14" in capsys.readouterr().out
    assert main([*again, "--precision", "fp32"]) == 4
    assert_one_sentence(capsys.readouterr(), "made with the precision bf16")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--precision", "fp16"], "A CPU does not multiply in fp16"),
        (["--precision", "auto", "--tolerance", "-1"], "tolerance must be a number of at least 0"),
        (["--inputs", "x.npz"], "--inputs is for --precision auto"),
        (["--precision", "auto", "--inputs", "x.npz"], "Cannot read the inputs from x.npz"),
        (["--precision", "auto", "--target", BOARD], "This machine cannot run code for cortex-x2"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], sentence: str
) -> None:
    assert main(compile_words(tmp_path, *more)) > 0
    assert_one_sentence(capsys.readouterr(), sentence)
    assert not list(tmp_path.iterdir())
