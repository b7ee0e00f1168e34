# SPDX-License-Identifier: Apache-2.0
"""Indices in PyTorch's models: negative ones by PyTorch's rule, those out of bounds an error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import tvm_ios

TABLE = torch.rand(7, 5)


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.table = torch.nn.Parameter(TABLE)

    def forward(self, *indices: torch.Tensor) -> torch.Tensor:
        return self.function(self.table, *indices)


# Functions of a table of 7 x 5 and indices, and whether these may count from the end.
FUNCTIONS: dict[str, tuple[Callable[..., torch.Tensor], bool]] = {
    "embedding": (lambda t, i: torch.nn.functional.embedding(i, t), False),
    "index_select": (lambda t, i: t.index_select(0, i), False),
    "gather": (lambda t, i: t.gather(0, i.reshape(3, 1)), False),
    "brackets": (lambda t, i: t[i], True),
    "second axis": (lambda t, i: t[:, i], True),
    "both axes": (lambda t, i: t[i, i], True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_index_is_checked_as_pytorch_does(name: str) -> None:
    function, counts_back = FUNCTIONS[name]
    model = Model(function).eval()
    compiled = tvm_ios.compile(model, [torch.tensor([0, 1, 2])], search=False, threads=1)
    allowed = [[4, 3, 0], [1, 1, 2], *([[-1, -5, 4]] if counts_back else [])]
    for given in allowed:
        indices = torch.tensor(given)
        np.testing.assert_array_equal(compiled(indices).numpy(), model(indices).detach().numpy())
    for wrong in (7, 2**40, -8, -(2**62), *(() if counts_back else (-1,))):
        indices = torch.tensor([0, wrong, 1])
        with pytest.raises((IndexError, RuntimeError)):
            model(indices)
        with pytest.raises(IndexError, match=rf"must be from -?\d to \d, got {wrong}\."):
            compiled(indices)
