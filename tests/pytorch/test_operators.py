# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch that TVM's importer lacks or converts wrongly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import tvm_ios
from tvm_ios.errors import ModelError

SHAPE = (2, 4, 8, 10)
LAYER = torch.nn.GRU(10, 6, batch_first=True).eval()
PROJECTED = torch.nn.LSTM(10, 6, proj_size=3).eval()


class Function(torch.nn.Module):
    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def _recurrent(kind: type[torch.nn.RNNBase], **given: object) -> Callable:
    """A layer from a state that is not zero; all steps, and the last of each state."""
    layer = kind(10, 6, **given).eval()

    def run(x: torch.Tensor) -> torch.Tensor:
        ways = layer.num_layers * (1 + layer.bidirectional)
        state = torch.stack([x[1, : 4 if layer.batch_first else 8, i, :6] for i in range(ways)])
        state = state[:, : x.shape[1]] if layer.batch_first else state.repeat(1, 2, 1)
        states = (state, state.sin()) if kind is torch.nn.LSTM else state
        data = x[0] if layer.batch_first else x[0].transpose(0, 1).repeat(1, 2, 1)
        result, last = layer(data, states)
        lasts = last if isinstance(last, tuple) else (last,)
        return torch.cat([value.flatten() for value in (result, *lasts)])

    return run


FUNCTIONS = {
    "reflect": lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"),
    "amax": lambda x: x.amax((2, 3)),
    "amin": lambda x: x.amin(1, keepdim=True),
    "amax of all": lambda x: x.amax(),
    "min": lambda x: x.min(2)[0],
    "places of min": lambda x: x.min(2)[1].float(),
    "unfold": lambda x: x.unfold(2, 4, 2).unfold(3, 3, 2),
    "im2col": lambda x: F.unfold(x, 3, padding=1),
    "indices of two axes": lambda x: x[:, torch.tensor([[0], [-1]]), torch.tensor([2, -3, 1])],
    "indices of far axes": lambda x: x[:, torch.tensor([1, 0]), :, torch.tensor([2, -3])],
    "floor division": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "positions": lambda x: x + torch.arange(10, dtype=torch.float32) // 2,
    "bilinear samples": lambda x: F.grid_sample(x, _grid(x), align_corners=False),
    "nearest samples": lambda x: F.grid_sample(
        x, _grid(x), mode="nearest", padding_mode="border", align_corners=True
    ),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(2, (x > 0).long(), x),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "lstm": _recurrent(torch.nn.LSTM, bidirectional=True, batch_first=True),
    "lstm of steps first": _recurrent(torch.nn.LSTM, bias=False),
    "layers of lstm": _recurrent(torch.nn.LSTM, num_layers=2, bidirectional=True),
    "gru": _recurrent(torch.nn.GRU, bidirectional=True, batch_first=True),
    "gru without a bias": _recurrent(torch.nn.GRU, num_layers=2, bias=False),
    "rnn": _recurrent(torch.nn.RNN, batch_first=True),
    "rnn of relu": _recurrent(torch.nn.RNN, nonlinearity="relu", bidirectional=True),
}


def _grid(x: torch.Tensor) -> torch.Tensor:
    return 1.2 * torch.tanh(x[:, :2].permute(0, 2, 3, 1))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operator(name: str) -> None:
    torch.manual_seed(0)
    x, model = torch.randn(SHAPE), Function(FUNCTIONS[name]).eval()
    with torch.no_grad():
        expected = model(x)
    result = tvm_ios.compile(model, [x], search=False, threads=1)(x)
    assert result.shape == expected.shape
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: F.max_pool2d(x, 2, return_indices=True)[1], "more than the first result"),
        (lambda x: PROJECTED(x[0])[0], "lstm.* projects its state"),
        (lambda x: LAYER(x[0, :0])[0], "gru.* has an empty sequence or batch"),
        (lambda x: torch.fft.rfft(x).abs() + torch.cdist(x, x).sum(), "_cdist_forward.*_fft_r2c"),
    ],
)
def test_refused(function: Callable, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        tvm_ios.compile(Function(function).eval(), [torch.randn(SHAPE)], search=False)


def test_constants_are_computed_once() -> None:
    """What does not depend on inputs needs no operator."""

    def biased(x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(10)
        table = torch.linspace(0, 1, 19)
        return x + table[places[:, None] - places[None, :] + 9].sum(0)

    model = Function(biased).eval()
    x = torch.randn(SHAPE)
    compiled = tvm_ios.compile(model, [x], search=False, threads=1)
    kinds = [op.kind for op in compiled.schedule.operators]
    assert kinds == ["elementwise"]
    torch.testing.assert_close(compiled(x), biased(x))


def test_names_of_modules() -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn = torch.nn.Conv2d(4, 8, 3), torch.nn.BatchNorm2d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.bn(self.conv(x)))

    model = torch.nn.Sequential(Block(), torch.nn.Sequential(torch.nn.MaxPool2d(2))).eval()
    compiled = tvm_ios.compile(model, [torch.randn(SHAPE)], search=False, threads=1)
    names = [op.module for op in compiled.schedule.operators]
    assert names[:2] == ["0.conv", "1.0"]
