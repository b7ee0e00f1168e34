# SPDX-License-Identifier: Apache-2.0
"""Random networks in 16 bits err no more than elsewhere, as benchmarks/halves.py compares them."""

from __future__ import annotations

import pytest
import torch

from halves import compare
from random_networks import KINDS, draw


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_errors(kind: str, dtype: torch.dtype) -> None:
    """But for the rounding of the result."""
    assert compare(kind, 0, dtype, threads=2).excess <= 1


def test_networks_follow_from_a_number() -> None:
    (first, x), (again, y) = (draw("convolutions", 3, torch.float16) for _ in range(2))
    assert torch.equal(x, y)
    with torch.no_grad():
        assert torch.equal(first(x), again(x))
