# SPDX-License-Identifier: Apache-2.0
"""Attention of PyTorch's modules is one operator, whose heads are not copied."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import tvm_ios
from tvm_ios.errors import ModelError


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


class Options(torch.nn.Module):
    """What else PyTorch's function takes."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, query: torch.Tensor, key: torch.Tensor, *mask: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(query, key, key + 1, *mask, **self.options)


MODULES = {
    "plain": SelfAttention,
    "causal": lambda: SelfAttention(causal=True),
    "masked": lambda: SelfAttention(masked=True),
    "by hand": ByHand,
    "library": Library,
}


def kinds_of(compiled: tvm_ios.CompiledModel) -> list[str]:
    return [operator.kind for operator in compiled.schedule.operators]


@torch.no_grad()
@pytest.mark.parametrize("name", MODULES)
def test_attention_is_one_operator(name: str) -> None:
    torch.manual_seed(0)
    module = MODULES[name]().eval()
    x = torch.randn(2, 21, 48)
    compiled = tvm_ios.compile(module, (x,), search=False)
    kinds = kinds_of(compiled)
    assert sum(kind.startswith("attention") for kind in kinds) == 1
    assert "softmax" not in kinds
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)


def shown(*shape: int, hidden_query: bool = False) -> torch.Tensor:
    """A mask that is true for some keys of each query, or of all queries but one."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.5
    mask[..., 0] = True
    if hidden_query:
        mask[..., 3, :] = False
    return mask


FOUR = ((2, 4, 9, 16), (2, 4, 11, 16))
CALLS = {
    "scale": (Options(scale=0.7), FOUR, (), 1),
    "three axes": (Options(), ((6, 9, 16), (6, 11, 16)), (), 1),
    "two axes": (Options(), ((9, 16), (11, 16)), (), 0),
    "shared heads": (Options(enable_gqa=True), ((2, 4, 9, 16), (2, 2, 11, 16)), (), 1),
    "causal, fewer queries": (Options(is_causal=True), FOUR, (), 1),
    "boolean mask": (Options(attn_mask=shown(9, 11)), FOUR, (), 1),
    "hidden query": (Options(attn_mask=shown(9, 11, hidden_query=True)), FOUR, (), 0),
    "computed mask": (Options(), FOUR, (shown(2, 1, 9, 11, hidden_query=True),), 0),
    "computed numbers": (Options(), FOUR, (torch.randn(2, 1, 9, 11),), 0),
}


@torch.no_grad()
@pytest.mark.parametrize("name", CALLS)
def test_other_attentions(name: str) -> None:
    """Zeros are the result for a query that all keys are hidden from."""
    module, shapes, masks, attentions = CALLS[name]
    torch.manual_seed(0)
    inputs = (*(torch.randn(shape) for shape in shapes), *masks)
    compiled = tvm_ios.compile(module.eval(), inputs, search=False)
    kinds = kinds_of(compiled)
    assert sum(kind.startswith("attention") for kind in kinds) == attentions
    torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)


def test_dropout_is_refused() -> None:
    inputs = tuple(torch.randn(shape) for shape in FOUR)
    with pytest.raises(ModelError, match="inference mode"):
        tvm_ios.compile(Options(dropout_p=0.5).eval(), inputs, search=False)
