# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of operators: one of each here; ``make conformance`` runs all."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from conformance import onnx_suite
from conformance.outcome import FINDINGS, LEFT_OUT, REFUSED, RIGHT, WRONG, Outcome, Test
from conformance.suites import ONNX, PEERS, TORCH, VARIANTS
from conformance.table import written
from conformance.widening import narrowed, widened

ANSWERED = {
    "test_attention_4d_gqa", "test_bitshift_left_int32_negative_shift", "test_batchnorm_example",
    "test_gru_defaults", "test_lstm_defaults", "test_resize_tf_crop_and_resize", "test_swish",
    "test_reduce_max_bool_inputs", "test_rms_normalization_2d_axis0", "test_stft", "test_identity",
    "test_cast_FLOAT_to_FLOAT8E4M3FN", "test_quantizelinear_float4e2m1", "test_identity_sequence",
    "test_hannwindow", "test_range_float_type_positive_delta_expanded",
    "test_constantofshape_float_ones",
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
    whole, inputs, _ = onnx_suite.in_form(case, onnx_suite.AS_IS)
    assert len(inputs) == len(whole.graph.input) == 5
    model, inputs, _ = onnx_suite.in_form(case, onnx_suite.WEIGHTS)
    assert (len(inputs), len(model.graph.input), len(model.graph.initializer)) == (1, 1, 4)
    model, _, _ = onnx_suite.in_form(case, onnx_suite.CONSTANTS)
    assert [node.op_type for node in model.graph.node] == [*["Constant"] * 4, "Slice"]
    assert onnx_suite.in_form(onnx_suite.cases()["test_relu"], onnx_suite.WEIGHTS) is None


def test_sequences_are_opened() -> None:
    case = onnx_suite.cases()["test_sequence_insert_at_front"]
    _, inputs, _ = onnx_suite.in_form(case, onnx_suite.AS_IS)
    assert isinstance(inputs[0], list)
    model, inputs, right = onnx_suite.in_form(case, onnx_suite.WEIGHTS)
    assert len(model.graph.output) == len(right) == len(case.data_sets[0][1][0])
    assert len(inputs) == 1
    onnx.checker.check_model(model)


@pytest.mark.parametrize("name", ["test_cast_FLOAT_to_INT4", "test_castlike_FLOAT8E5M2_to_FLOAT"])
def test_narrow_types_are_widened(name: str) -> None:
    model, inputs, right = onnx_suite.in_form(onnx_suite.cases()[name], onnx_suite.AS_IS)
    wide, arrays = widened(model, inputs)
    onnx.checker.check_model(wide, full_check=True)
    results = ReferenceEvaluator(wide).run(
        None, {v.name: a for v, a in zip(wide.graph.input, arrays, strict=True)}
    )
    assert {array.dtype.kind for array in (*arrays, *results)} <= set("fi")
    assert onnx_suite.difference(narrowed(results, right), right, 0) == ""


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
        Test(ONNX, "test_quantizelinear_int4", form): Outcome(RIGHT),
        Test(ONNX, "test_quantizelinear_int4", onnx_suite.DECIDING): Outcome(RIGHT),
        Test(ONNX, "test_split_to_sequence_1", form): Outcome(RIGHT),
        Test(ONNX, "test_split_to_sequence_1", onnx_suite.AS_IS): refused,
    }
    page = written(outcomes, "before\n<!-- onnx: begin -->\nold\n<!-- onnx: end -->\nbehind")
    assert page.startswith("before")
    assert page.endswith("behind")
    assert "old" not in page
    assert "| Det | (11), (22) |  | 0 | 1 | 0 | 0 | operators: Det |" in page
    assert "| Relu | (6), 13, 14 | float int8 | 1 | 0 | 0 | 1 | not in double |" in page
    assert "Of 3 tests 1 are right as they are, 1 with constant lists\nand numbers; " in page
    assert "Of 1 tests of 8-bit floats and of 4 and 2 bits 0 are right as they are, 1 with" in page
    assert "Of 1 tests on sequences and optionals 0 are right as they are, 0 with" in page


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
