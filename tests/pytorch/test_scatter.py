# SPDX-License-Identifier: Apache-2.0
"""PyTorch's writing of elements at places, bags of rows, and counts of elements."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from support.torch_functions import Function, assert_same
from tvm_ios.errors import ModelError
from tvm_ios.frontend.pytorch import from_module

NAN, INF = math.nan, math.inf
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_what_is_scattered_is_combined(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, source, places = torch.randn(5, 7), torch.randn(6, 7), torch.randint(0, 4, (6, 7))
    source[0, 0] = NAN if dtype == torch.float32 else 3
    rows = torch.tensor([3, 3, 0, 3])

    def everything(x: torch.Tensor, source: torch.Tensor, places: torch.Tensor) -> list:
        return [
            found
            for reduce in REDUCTIONS
            for own in (True, False)
            for found in (
                x.scatter_reduce(0, places, source, reduce, include_self=own),
                x.index_reduce(
                    0, rows, source[:4], "prod" if reduce == "sum" else reduce, include_self=own
                ),
            )
        ]

    assert_same(everything, (3 * x).to(dtype), (3 * source).to(dtype), places)


def _written(x: torch.Tensor, place: object, values: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[place] = values
    return result


def test_values_where_a_mask_is_true() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 7)
    mask, rows = x > 0, x[:, 0] > 0
    count, number = int(mask.sum()), int(rows.sum())

    def everything(
        x: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor, values: torch.Tensor
    ) -> list[torch.Tensor]:
        some = values[:number, :7]
        return [
            _written(x, mask, values.flatten()[:count]),
            _written(x, mask, values[0, 0]),
            _written(x, rows, some),
            _written(x, rows, some[:1]),
            _written(x, rows, some[:, :1]),
            _written(x, rows, some[0]),
            _written(x, (slice(None), rows[:1].expand(7)), values[:5, :1]),
            x.index_put((rows,), some, accumulate=True),
        ]

    assert_same(everything, x, mask, rows, torch.randn(6, 9))


def test_values_of_columns_where_a_mask_is_true_are_refused() -> None:
    x = torch.randn(5, 7)
    mask = x[0] > 0
    values = torch.randn(5, int(mask.sum()))
    function = Function(lambda x, mask, values: _written(x, (slice(None), mask), values))
    with pytest.raises(ModelError, match="axes that are not the first"):
        from_module(function, [x, mask, values])


def test_parts_are_replaced() -> None:
    torch.manual_seed(0)
    places = torch.tensor([[3, -1], [0, 9]])

    def everything(x: torch.Tensor, values: torch.Tensor) -> list[torch.Tensor]:
        part = values[:2, :2]
        diagonals = [(o, x[0].diagonal(o).numel()) for o in (-2, 0, 3)]
        return [
            x.put(places, part),
            x.put(places.abs() // 3, part, accumulate=True),
            *(x.diagonal_scatter(values[:4, :n], o, 1, 2) for o, n in diagonals),
            x.as_strided_scatter(values[:2, :3], (2, 3), (7, 2), 1),
        ]

    assert_same(everything, torch.randn(4, 5, 7), torch.randn(4, 7))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_rows(mode: str) -> None:
    """Bags are empty, of different or of equal sizes; rows that pad are not read."""
    torch.manual_seed(0)
    table = torch.randn(11, 5)
    table[2] = NAN
    indices, begins = torch.tensor([3, 0, 10, 2, 2, 7, 1]), torch.tensor([0, 3, 3, 5])

    def everything(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor) -> list[torch.Tensor]:
        def bags(i: torch.Tensor, *given: torch.Tensor, **named: object) -> torch.Tensor:
            return F.embedding_bag(i, w, *given, mode=mode, padding_idx=2, **named)

        factors = {"per_sample_weights": w.flatten()[:7]} if mode == "sum" else {}
        ends = torch.tensor([0, 3, 3, 7])
        return [
            bags(i, o, **factors),
            bags(i, torch.tensor([0, 2, 7])),
            bags(i, ends, include_last_offset=True),
            bags(i[:6].reshape(2, 3)),
            F.embedding_bag(i[:3], w, o[:1], mode=mode),
        ]

    assert_same(everything, table, indices, begins)


def test_histograms() -> None:
    torch.manual_seed(0)
    x = torch.cat([torch.randn(101), torch.tensor([1.0, -1.0, 1.001, 0.5])])
    odd = torch.cat([x, torch.tensor([NAN, INF, -INF])])

    def everything(x: torch.Tensor, odd: torch.Tensor) -> list[torch.Tensor]:
        same = x.sign().abs() + 1
        return [odd.histc(7, -1, 1), x.histc(9), same.histc(5), x[:0].histc(3), x.histc(3, 0.1, 9)]

    assert_same(everything, x, odd)


def test_places_in_rows_that_a_sorter_orders() -> None:
    torch.manual_seed(0)
    x, values = torch.randn(5, 7), torch.randn(5, 3)
    assert_same(
        lambda x, v, s: (
            torch.searchsorted(x, v, sorter=s),
            torch.searchsorted(x[0], v, sorter=s[0], right=True),
        ),
        x, values, x.argsort(1),
    )  # fmt: skip
