# SPDX-License-Identifier: Apache-2.0
"""Attention of PyTorch's modules is one operator, whose heads are not copied."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import tvm_ios


class SelfAttention(torch.nn.Module):
    """Heads of one product, split as Vision Transformers do."""

    def __init__(self, *, causal: bool = False, masked: bool = False) -> None:
        super().__init__()
        self.mixed, self.out = torch.nn.Linear(48, 144), torch.nn.Linear(48, 48)
        self.causal = causal
        hidden = torch.arange(21) > 17
        self.mask = torch.zeros(21).masked_fill(hidden, -torch.inf) if masked else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        mixed = self.mixed(x).reshape(batch, length, 3, 3, width // 3).permute(2, 0, 3, 1, 4)
        query, key, value = mixed.unbind(0)
        mask = None if self.mask is None else self.mask.expand(length, length)
        y = scaled_dot_product_attention(query, key, value, mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class ByHand(SelfAttention):
    """Products and a softmax."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = (
            y.view(batch, length, 3, width // 3).transpose(1, 2)
            for y in self.mixed(x).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-2, -1) / 4.0
        y = scores.softmax(-1) @ value
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Library(torch.nn.Module):
    """PyTorch's own module."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(48, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


MODULES = {
    "plain": SelfAttention,
    "causal": lambda: SelfAttention(causal=True),
    "masked": lambda: SelfAttention(masked=True),
    "by hand": ByHand,
    "library": Library,
}


@torch.no_grad()
@pytest.mark.parametrize("name", MODULES)
def test_attention_is_one_operator(name: str) -> None:
    torch.manual_seed(0)
    module = MODULES[name]().eval()
    x = torch.randn(2, 21, 48)
    compiled = tvm_ios.compile(module, (x,), search=False)
    kinds = [operator.kind for operator in compiled.schedule.operators]
    assert sum(kind.startswith("attention") for kind in kinds) == 1
    assert "softmax" not in kinds
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
