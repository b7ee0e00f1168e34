# SPDX-License-Identifier: Apache-2.0
"""The run of the test suites of ONNX and PyTorch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from conformance import variants, variants_suite
from conformance.__main__ import main
from conformance.outcome import (
    CRASH,
    ERROR,
    LEFT_OUT,
    REFUSED,
    RIGHT,
    WRONG,
    Outcome,
    Test,
    combined,
)
from conformance.report import listed, printed
from conformance.suites import ONNX, TORCH

SAMPLES = [Outcome(LEFT_OUT), Outcome(RIGHT), Outcome(REFUSED, "No a."), Outcome(REFUSED, "No b.")]


def test_a_test_of_several_samples() -> None:
    assert combined([]).status == LEFT_OUT
    assert combined(SAMPLES[:1]).status == LEFT_OUT
    assert combined(SAMPLES[:2]).status == RIGHT
    partly = combined(SAMPLES)
    assert (partly.status, partly.reason) == (REFUSED, "No a. (1 of 3 samples right)")
    assert combined(SAMPLES[2:]).reason == "No a."
    found = combined([*SAMPLES, Outcome(ERROR, "first\nlast\n"), Outcome(WRONG, "by 1")])
    assert (found.status, found.reason) == (WRONG, "by 1 (sample 5)")
    assert [sample.status for sample in found.samples][3:] == [REFUSED, ERROR, WRONG]


def test_samples_are_counted_and_listed() -> None:
    test = Test(TORCH, "add", "float32")
    outcomes = {test: combined(SAMPLES), Test(TORCH, "sub", "float32"): Outcome(CRASH, "a\nsignal")}
    text = printed(outcomes)
    assert "crash: sub (float32): signal" in text
    assert "float32: 1 refused, 1 crash; samples: 2 refused, 1 left out, 1 right" in text
    first = listed(outcomes)[0]
    assert (first["suite"], first["name"], first["form"]) == (TORCH, "add", "float32")
    assert first["samples"] == [[sample.status, sample.reason] for sample in SAMPLES]


def test_a_run(tmp_path: Path, capsys) -> None:
    file = tmp_path / "outcomes.json"
    assert main(["test_relu", "--suite", ONNX, "--form", "as is", "--json", str(file)]) == 0
    assert {entry["status"] for entry in json.loads(file.read_text())} == {RIGHT}
    assert "onnx: 2 tests took" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--form", "float8"], ["--part", "4/3"], ["--suite", "tvm"]])
def test_wrong_flags_are_refused(flags: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(flags)


def test_variants_in_types_and_versions() -> None:
    types, opsets = variants.variants(variants.TYPES), variants.variants(variants.OPSETS)
    whole = types["test_relu@T=int8"]
    assert whole.is_main
    assert whole.inputs[0].dtype == np.int8
    assert variants_suite.outcome_of("test_relu@T=int8", variants.TYPES).status == RIGHT
    name = "test_constant_pad@opset 2"
    (node,) = opsets[name].model.graph.node
    assert len(node.input) == 1
    assert "pads" in {attribute.name for attribute in node.attribute}
    assert variants_suite.outcome_of(name, variants.OPSETS).status == RIGHT


def test_the_types_of_a_test() -> None:
    assert variants.own_types("test_top_k_uint64") == {"uint64"}
    assert variants.own_types("test_identity_sequence") == set()  # its data is no tensor


def test_a_type_without_a_reference_must_be_refused(monkeypatch) -> None:
    monkeypatch.setattr(variants_suite, "_reference", lambda model, inputs: None)
    outcome = variants_suite.outcome_of("test_relu@T=int8", variants.TYPES)
    assert outcome.status == WRONG
    assert "not refused" in outcome.reason
