# SPDX-License-Identifier: Apache-2.0
"""Each operator of Relay that is converted, against NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from support.networks import assert_close
from support.relay import cases_nn as relay_cases_nn
from support.relay import cases_shape as relay_cases_shape
from support.relay import cases_tensor as relay_cases_tensor
from support.relay.cases import Case, run_cases
from tvm_ios.relay.operators import OPERATORS

GROUPS = {
    "nn": relay_cases_nn.CASES,
    "tensor": relay_cases_tensor.CASES,
    "shape": relay_cases_shape.CASES,
}


@cache
def _results(group: str) -> list[list[np.ndarray]]:
    """Of all cases of a group: they are compiled together, which is what takes time."""
    return run_cases(GROUPS[group])


@pytest.mark.parametrize(
    ("group", "number"),
    [
        pytest.param(group, i, id=str(case))
        for group, cases in GROUPS.items()
        for i, case in enumerate(cases)
    ],
)
def test_an_operator_gives_what_numpy_gives(group: str, number: int) -> None:
    case: Case = GROUPS[group][number]
    actual = _results(group)[number]
    assert len(actual) == len(case.results)
    for one, other in zip(actual, case.results, strict=True):
        assert one.dtype == other.dtype or other.dtype == "float64"
        assert_close(one, other, 1e-5)


def test_every_operator_has_a_case() -> None:
    assert {case.operator for cases in GROUPS.values() for case in cases} == OPERATORS.keys()
