# SPDX-License-Identifier: Apache-2.0
"""PyTorch's special functions, and functions of signs, exponents and NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import special
from torch.utils._pytree import tree_leaves

from support.torch_functions import Function, assert_same
from tvm_ios.errors import ModelError
from tvm_ios.frontend.pytorch import from_module

NAN, INF = math.nan, math.inf
NUMBERS = torch.tensor([
    0.0, -0.0, 1, -1, 0.5, -0.5, 2, 8, -8, INF, NAN, 1e-8, -1e-8, 1e-30, 30, -30, 100, 1e5, 1e30,
    -2.5, -7.5, -33.25, 150, -4.0001, 1 - 6e-8, -1 + 6e-8,
])  # fmt: skip

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "erfc": special.erfc,
    "erfcx": special.erfcx,
    "erfinv": special.erfinv,
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "i0": special.i0,
    "i0e": special.i0e,
    "i1": special.i1,
    "i1e": special.i1e,
    "log_ndtr": special.log_ndtr,
    "ndtri": lambda x: special.ndtri(x.abs() / 40),
    "probabilities near 0": lambda x: special.ndtri(1e-12 * torch.sigmoid(x)),
    "second derivative": lambda x: torch.polygamma(2, x),
    "third derivative": lambda x: torch.polygamma(3, x),
    "frexp": torch.frexp,
    "signbit": torch.signbit,
}


def _all_but(*names: str) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Return a function that has the results of all others, to compile them once."""
    functions = [function for name, function in FUNCTIONS.items() if name not in names]
    return lambda x: tree_leaves([function(x) for function in functions])


def test_of_numbers() -> None:
    """Results near 0 have as many right digits as others."""
    torch.manual_seed(0)
    x = torch.cat([3 * torch.randn(301), 2 * torch.rand(101) - 1, NUMBERS])
    assert_same(_all_but(), x, rtol=2e-5, atol=1e-13)


def test_of_float64() -> None:
    torch.manual_seed(0)
    x = torch.cat([3 * torch.randn(301).double(), NUMBERS.double()])
    assert_same(_all_but("frexp"), x, rtol=1e-9, atol=1e-12)


def test_trigamma() -> None:
    """PyTorch's is rounded to float32 in between; ours ends at the poles."""
    x = torch.cat([torch.linspace(0.01, 9, 101), torch.tensor([INF, NAN, -0.5, -3.7])])
    assert_same(lambda x: torch.polygamma(1, x), x)


def test_pairs() -> None:
    """Of all pairs of unusual numbers."""

    def everything(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x.fmax(y), x.fmin(y), x.hypot(y), x.copysign(y), x.nextafter(y)]

    largest = torch.finfo(torch.float32).max
    numbers = [0.0, -0.0, 1, 2, 4, -1, -2, INF, -INF, NAN, 3e38, largest, 2e-38, 1.5, 3.3, 1e-30]
    x, y = torch.meshgrid(torch.tensor(numbers), torch.tensor(numbers), indexing="ij")
    assert_same(everything, x.contiguous(), y.contiguous(), rtol=2e-7, atol=0)


def test_integers() -> None:
    x, y = torch.tensor([1, -1, 0, 7]), torch.tensor([2, -3, 1, 7])
    assert_same(lambda x, y: (x.fmax(y), x.fmin(y), x.copysign(y)), x, y)
    assert_same(lambda x: (x.signbit(), x.erfc(), x.lgamma(), x.i0()), x)


def test_exponents_of_float64_are_refused() -> None:
    x = torch.randn(3, dtype=torch.float64)
    with pytest.raises(ModelError, match="exponents of float64"):
        from_module(Function(torch.frexp), [x])
    with pytest.raises(ModelError, match="neighbour of float64"):
        from_module(Function(torch.nextafter), [x, x])
