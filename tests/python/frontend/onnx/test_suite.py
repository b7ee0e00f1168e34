# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of operators: one of each here; ``make conformance`` runs all."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import onnx_suite
from conformance.outcome import FINDINGS, LEFT_OUT, REFUSED, RIGHT, WRONG, Outcome, Test
from conformance.suites import ONNX, PEERS, TORCH, VARIANTS
from conformance.table import written

ANSWERED = {
    "test_attention_4d_gqa", "test_bitshift_left_int32_negative_shift", "test_batchnorm_example",
    "test_gru_defaults", "test_lstm_defaults", "test_resize_tf_crop_and_resize", "test_swish",
    "test_reduce_max_bool_inputs", "test_rms_normalization_2d_axis0", "test_stft", "test_identity",
}  # fmt: skip
"""Tests that must not be refused with constant inputs: a test must not pass because all are."""


def _first_of_each() -> list[str]:
    first: dict[str, str] = {}
    for name in sorted(onnx_suite.cases()):
        first.setdefault(onnx_suite.operator_of(name), name)
    return sorted({*first.values(), *ANSWERED})


@pytest.mark.parametrize("name", _first_of_each())
def test_an_operator_is_right_or_refused(name: str) -> None:
    for form in (onnx_suite.CONSTANTS, onnx_suite.AS_IS):
        outcome = onnx_suite.outcome_of(name, form)
        assert outcome.status not in FINDINGS, outcome.reason
        if name in ANSWERED and form == onnx_suite.CONSTANTS:
            assert outcome.status != REFUSED, outcome.reason


def test_forms_of_a_test() -> None:
    case = onnx_suite.cases()["test_slice"]
    whole, inputs = onnx_suite.in_form(case, onnx_suite.AS_IS)
    assert len(inputs) == len(whole.graph.input) == 5
    model, inputs = onnx_suite.in_form(case, onnx_suite.WEIGHTS)
    assert (len(inputs), len(model.graph.input), len(model.graph.initializer)) == (1, 1, 4)
    model, inputs = onnx_suite.in_form(case, onnx_suite.CONSTANTS)
    assert [node.op_type for node in model.graph.node] == [*["Constant"] * 4, "Slice"]
    assert onnx_suite.in_form(onnx_suite.cases()["test_relu"], onnx_suite.WEIGHTS) is None


def test_differences_are_found() -> None:
    right = [np.float32([1, 2]), np.float16([1])]
    assert onnx_suite.difference(right, right, 1e-3) == ""
    assert "1 outputs" in onnx_suite.difference(right[:1], right, 1e-3)
    assert "float64" in onnx_suite.difference([right[0].astype("float64"), right[1]], right, 1e-3)
    assert "1 of 2" in onnx_suite.difference([np.float32([1, 2.1]), right[1]], right, 1e-3)
    assert "differ" in onnx_suite.difference([np.float32([1, np.nan]), right[1]], right, 1e-3)


def test_the_table_of_onnx() -> None:
    form = onnx_suite.CONSTANTS
    refused = Outcome(REFUSED, "f.onnx has operators: Det; export it again.")
    outcomes = {
        Test(ONNX, "test_relu", form): Outcome(RIGHT),
        Test(ONNX, "test_relu", onnx_suite.AS_IS): Outcome(RIGHT),
        Test(ONNX, "test_det_2d", form): refused,
        Test(ONNX, "test_det_nd", form): Outcome(WRONG, "by 1"),
        Test(VARIANTS, "test_relu@T=int8", "types"): Outcome(RIGHT),
        Test(VARIANTS, "test_relu@T=double", "types"): refused,
        Test(VARIANTS, "test_relu@opset 13", "opsets"): Outcome(RIGHT),
        Test(PEERS, "test_relu", "OpenVINO"): Outcome(RIGHT),
    }
    page = written(outcomes, "before\n<!-- onnx: begin -->\nold\n<!-- onnx: end -->\nbehind")
    assert page.startswith("before")
    assert page.endswith("behind")
    assert "old" not in page
    assert "| Det | (11), (22) |  | 0 | 1 | 0 | 0 | operators: Det |" in page
    assert "| Relu | (6), 13, 14 | float int8 | 1 | 0 | 0 | 1 | not in double |" in page
    assert "Of 3 tests 1 are right as they are, 1 with constant lists\nand numbers; " in page


def test_the_table_of_pytorch() -> None:
    samples = (Outcome(RIGHT), Outcome(REFUSED, "no kernel"), Outcome(LEFT_OUT))
    outcomes = {
        Test(TORCH, "add", "float32"): Outcome(RIGHT, samples=samples[:1]),
        Test(TORCH, "add", "float16"): Outcome(LEFT_OUT, samples=samples[2:]),
        Test(TORCH, "svd", "float32"): Outcome(REFUSED, "no kernel", samples),
    }
    page = written(outcomes, "<!-- pytorch: begin -->\n<!-- pytorch: end -->")
    assert "Right, all samples: `add`." in page
    assert "| `svd` | 1 of 2 |  | no kernel |" in page
