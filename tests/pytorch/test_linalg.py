# SPDX-License-Identifier: Apache-2.0
"""PyTorch's linear algebra of small matrices."""

from __future__ import annotations

import pytest
import torch
from torch import linalg

from support.torch_functions import Function, assert_same
from tvm_ios.errors import ModelError
from tvm_ios.frontend.pytorch import from_module

TOLERANCES = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 1, 5, 5), (8, 8)])
def test_elimination(shape: tuple[int, ...]) -> None:
    """Pivots are chosen; what is on both sides of a product is solved for, also vectors."""
    torch.manual_seed(0)
    rows = shape[-1]

    def everything(a: torch.Tensor, b: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.det(a),
            *linalg.slogdet(a),
            *linalg.inv_ex(a),
            linalg.inv(a),
            linalg.solve(a, b),
            linalg.solve(a, b.mT, left=False),
            linalg.solve(a, v),
            linalg.matrix_power(a, -2),
        ]

    a = torch.randn(shape)
    assert_same(
        everything, a, torch.randn(*shape[:-2], rows, 3), torch.randn(shape[:-1]), **TOLERANCES
    )


@pytest.mark.parametrize("upper", [False, True])
def test_triangles(upper: bool) -> None:
    """The other half is not read."""
    torch.manual_seed(0)

    def everything(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        symmetric = a @ a.mT + torch.eye(5)
        half = torch.where(torch.ones(5, 5).triu().bool() == upper, symmetric, torch.nan)
        half = half.where(~torch.eye(5).bool(), symmetric.diagonal(0, 1, 2).diag_embed())
        large = a + 3 * torch.eye(5)
        return [
            *linalg.cholesky_ex(half, upper=upper),
            linalg.cholesky(symmetric, upper=upper),
            linalg.cholesky_ex(a).info,
            linalg.solve_triangular(large, b, upper=upper),
            linalg.solve_triangular(a / 9, b.mT, upper=upper, left=False, unitriangular=True),
            *torch.triangular_solve(b, large, upper, transpose=True),
            torch.cholesky_solve(b, large, upper),
            torch.cholesky_inverse(large, upper),
        ]

    assert_same(everything, torch.randn(2, 5, 5), torch.randn(2, 5, 3), **TOLERANCES)


def test_singular_matrices() -> None:
    """Determinants are 0, and the step that fails is found."""
    singular = torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    swapped = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 2]])
    both = torch.stack([singular, swapped, torch.zeros(3, 3)])
    assert_same(lambda x: (torch.det(x), *linalg.slogdet(x), linalg.inv_ex(x).info), both)


def test_no_rows() -> None:
    def everything(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.det(x), *linalg.slogdet(x), *linalg.inv_ex(x), *linalg.cholesky_ex(x)]

    assert_same(everything, torch.zeros(3, 0, 0))


def test_large_matrices_are_refused() -> None:
    with pytest.raises(ModelError, match=r"matrices of 9 rows; from 1 to 8"):
        from_module(Function(torch.inverse), [torch.randn(9, 9)])
    with pytest.raises(ModelError, match=r"matrices of 9 rows"):
        from_module(Function(linalg.cholesky), [torch.randn(9, 9)])
