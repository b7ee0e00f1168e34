# SPDX-License-Identifier: Apache-2.0
"""Inverses of matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.contributed import Node, check, compiled, numbers
from tvm_ios.errors import ModelError


@pytest.mark.parametrize(("shape", "dtype"), [((2, 5, 3, 3), "float32"), ((4, 4), "float64")])
def test_inverse(shape: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    data = numbers(*shape, dtype=dtype) + 3 * np.eye(shape[-1], dtype=dtype)
    check(tmp_path, Node("Inverse", [data]))


def test_a_singular_matrix_has_no_inverse(tmp_path: Path) -> None:
    data = np.array([np.eye(2), np.ones((2, 2))], "float32")
    (result,) = compiled(tmp_path, Node("Inverse", [data]))
    np.testing.assert_array_equal(result, [np.eye(2), np.full((2, 2), np.nan)])


@pytest.mark.parametrize(
    ("shape", "problem"),
    [((2, 3), r"square matrices, but is given a tensor of \[2, 3\]"), ((9, 9), "of 9 rows")],
)
def test_what_is_not_inverted(shape: tuple[int, ...], problem: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=problem):
        compiled(tmp_path, Node("Inverse", [numbers(*shape)]))
