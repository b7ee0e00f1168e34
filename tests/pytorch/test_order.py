# SPDX-License-Identifier: Apache-2.0
"""PyTorch's medians and other elements by rank, running extremes, and distances between rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch.utils._pytree import tree_leaves

from support.torch_functions import assert_same

NAN, INF = math.nan, math.inf
FUNCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "median": lambda x: x.median(1),
    "median of all": lambda x: x.median(),
    "median that keeps the axis": lambda x: x.median(1, keepdim=True),
    "nanmedian": lambda x: x.nanmedian(0),
    "kthvalue": lambda x: x.kthvalue(3, 1),
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x.cummin(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(0),
    "argmax": lambda x: x.argmax(),
    "sort": lambda x: x.sort(dim=1, stable=True),
    "topk": lambda x: x.topk(2, 1),
}


def _special() -> torch.Tensor:
    """Rows with NaN, several infinities of a sign, or both; each place of a result is clear."""
    x = torch.randn(3, 7, 5)
    x[0, 2, 1] = x[1, 4, 3] = NAN
    x[2, 3] = INF
    x[2, 4] = -INF
    return x


def _all_but(*names: str) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Return a function that has the results of all others, to compile them once."""
    functions = [function for name, function in FUNCTIONS.items() if name not in names]
    return lambda x: tree_leaves([function(x) for function in functions])


def test_of_numbers() -> None:
    torch.manual_seed(0)
    assert_same(_all_but(), torch.randn(3, 7, 5))


def test_nan_and_infinities() -> None:
    torch.manual_seed(0)
    assert_same(_all_but("kthvalue"), _special())


def test_the_largest_of_several_nan() -> None:
    """Its place is that of any of them."""
    x = torch.tensor([[1, NAN, 2, NAN, INF], [INF, NAN, INF, 0, -INF]])
    assert_same(lambda x: x.kthvalue(4, 1)[0], x)
    assert_same(lambda x: x.kthvalue(3, 1)[0], x)
    assert_same(lambda x: x.nanmedian(1), x[:1])
    assert_same(lambda x: x.nanmedian(0), torch.full((3, 1), NAN))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float64])
def test_types(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randperm(105).reshape(3, 7, 5).to(dtype)
    assert_same(_all_but(*(() if x.is_floating_point() else ("logcumsumexp", "nanmedian"))), x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32])
def test_the_most_frequent(dtype: torch.dtype) -> None:
    """Of several the least, and the last of its places: rows are short enough for PyTorch's."""
    torch.manual_seed(0)
    assert_same(lambda x: x.mode(1), torch.randint(0, 4, (3, 11, 5)).to(dtype))
    assert_same(lambda x: x.mode(0, keepdim=True), torch.randint(0, 4, (1, 3)).to(dtype))


def test_no_axes() -> None:
    def everything(x: torch.Tensor) -> list[torch.Tensor]:
        found = [x.median(0), x.mode(0), x.cummax(0), x.cummin(0), x.kthvalue(1)]
        return tree_leaves(found)

    assert_same(everything, torch.tensor(3.0))


def test_running_sums_that_would_overflow() -> None:
    assert_same(lambda x: x.logcumsumexp(0), torch.tensor([-INF, -INF, -200, 3, 300, 299, INF, 0]))


@pytest.mark.parametrize("order", [0, 1, 2, 3.5, INF])
def test_distances(order: float) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(4, 1, 5, 7), torch.randn(3, 6, 7)
    assert_same(lambda x, y: torch.cdist(x, y, order), x, y)
    assert_same(lambda x, y: torch.cdist(x, y, order), x[..., :0], y[..., :0])
    assert_same(lambda x: torch.nn.functional.pdist(x, order), y[0])


def test_distances_of_many_rows() -> None:
    """PyTorch computes them by a product of matrices, which rounds more."""
    torch.manual_seed(0)
    assert_same(torch.cdist, torch.randn(2, 41, 7), torch.randn(2, 37, 7))
