# SPDX-License-Identifier: Apache-2.0
"""PyTorch's samples of calls of operators: a few here; ``make conformance-pytorch`` runs all."""

from __future__ import annotations

import pytest
import torch

from conformance import torch_suite
from conformance.outcome import FINDINGS, LEFT_OUT, RIGHT
from conformance.torch_sample import Call, NoSingleAnswer, answer, answer_by_float32, difference

ANSWERED = ["add", "cat", "nn.functional.conv2d", "softmax", "signal.windows.hann", "__getitem__"]
"""Some take several tensors, lists of them, no tensor, and slices."""


@pytest.mark.parametrize("name", ANSWERED)
def test_an_operator_is_right(name: str) -> None:
    outcome = torch_suite.outcome_of(name, "float32")
    assert outcome.status not in FINDINGS, outcome.reason
    assert RIGHT in [sample.status for sample in outcome.samples]


def test_numbers_of_16_bits() -> None:
    assert torch_suite.outcome_of("add", "float16").status == RIGHT


@pytest.mark.parametrize("name", ["bernoulli", "fft.fft", "jiterator_unary", "equal"])
def test_what_has_no_single_answer_is_left_out(name: str) -> None:
    assert torch_suite.outcome_of(name, "float32").status == LEFT_OUT


def test_names_tell_variants_apart() -> None:
    names = set(torch_suite.names("float32"))
    assert {"norm", "norm/nuc"} <= names
    assert "empty_like" not in names


def test_tensors_are_inputs_wherever_they_are() -> None:
    x, y, z = torch.rand(3, 2, 2)
    call = Call(lambda xs, y, *, k: xs[0] + xs[1] * y["y"] + k, ([x, z], {"y": y}), {"k": 1})
    assert [torch.equal(*pair) for pair in zip(call.inputs(), (x, z, y), strict=True)] == [True] * 3
    assert torch.equal(call(*call.inputs()), x + z * y + 1)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (torch.rand_like, "random"),
        (torch.dropout_, "cannot compute"),
        (torch.relu_, "changes an input"),
        (torch.Tensor.tolist, "no tensor"),
        (torch.Tensor.to_sparse, "sparse"),
        (torch.fft.rfft, "complex"),
    ],
)
def test_what_is_no_answer(function: object, reason: str) -> None:
    with pytest.raises(NoSingleAnswer, match=reason):
        answer(Call(function, [torch.tensor([-1.0, 2.0])], {}))


def test_numbers_of_16_bits_may_be_computed_in_32() -> None:
    call = Call(lambda x: x.exp().log(), [torch.full((1,), 12.0, dtype=torch.float16)], {})
    assert answer(call)[0].isinf()
    assert torch.equal(answer_by_float32(call)[0], call.inputs()[0])


def test_differences_are_found() -> None:
    right = [torch.tensor([1.0, torch.nan])]
    assert difference(right, right, 0, 0) == ""
    assert "2 results" in difference(right * 2, right, 0, 0)
    assert "dtype" in difference([right[0].double()], right, 0, 0)
    assert "shape" in difference([right[0][:1]], right, 0, 0)
    assert "not close" in difference([right[0] + 1], right, 1e-4, 1e-5)
