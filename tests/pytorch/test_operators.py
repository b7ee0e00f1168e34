# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch, as exported programs have them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import tvm_ios
from tvm_ios.errors import ModelError
from tvm_ios.frontend.pytorch import from_module

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


def _in_place(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[:, 1::2, 2:5] = 3 * result[:, ::2, 4:7]
    result[0, 1] += 1
    return result


def _integers(x: torch.Tensor) -> torch.Tensor:
    return (100 * x).to(torch.int64)


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
    "nearest at 1.3": lambda x: F.interpolate(x, scale_factor=1.3, mode="nearest"),
    "nearest at 1.04": lambda x: F.interpolate(x.reshape(2, 16, 20), scale_factor=1.04),
    "nearest at 2.03": lambda x: F.interpolate(x.reshape(2, 16, 20), scale_factor=2.03),
    "nearest of images at 1.04": lambda x: F.interpolate(
        x.reshape(2, 4, 4, 20), scale_factor=(2.03, 1.04)
    ),
    "nearest of volumes at 2.03": lambda x: F.interpolate(
        x.reshape(2, 4, 2, 2, 20), scale_factor=(1.0, 1.0, 2.03)
    ),
    "any of no axes": lambda x: torch.any(x > 0, dim=()).float(),
    "nearest at 0.7": lambda x: F.interpolate(x, scale_factor=(0.7, 2.0), mode="nearest-exact"),
    "bilinear at 1.5": lambda x: F.interpolate(x, scale_factor=(1.55, 0.6), mode="bilinear"),
    "bilinear to a size": lambda x: F.interpolate(x, (5, 17), mode="bilinear", align_corners=True),
    "antialias": lambda x: F.interpolate(x, (5, 4), mode="bilinear", antialias=True),
    "antialias of cubes": lambda x: F.interpolate(x, (3, 14), mode="bicubic", antialias=True),
    "bicubic at 0.7": lambda x: F.interpolate(x, scale_factor=0.7, mode="bicubic"),
    "divisor": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
    "average beyond the end": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "places of a pool": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1].float(),
    "adaptive average": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "deviation": lambda x: x.std((1, 3)) + x.var(dim=(1, 3), unbiased=False),
    "norms": lambda x: x.norm(1, -1) + x.norm(2, -1) + x.abs().amax(-1) + x.norm(3, -1),
    "sort": lambda x: torch.cat([part.float() for part in x.sort(2, descending=True)]),
    "topk": lambda x: x.topk(3, 1)[0],
    "index_put": lambda x: x.index_put((torch.tensor([1, 0]), torch.tensor([2, -1])), x[0, 0]),
    "accumulated": lambda x: x.index_put(
        (torch.tensor([1, 1, 0]),), torch.ones(1), accumulate=True
    ),
    "a part in place": _in_place,
    "masked": lambda x: x.masked_fill(x > 0.5, 2.0),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.exp()),
    "take of a diagonal": lambda x: x.diagonal(1, 2, 3),
    "powers": lambda x: x**2 + x**3 + x.abs() ** 0.5 + x.abs() ** -0.5 + x.abs() ** 1.7 + 2**x,
    "remainders": lambda x: x % 0.3 + torch.fmod(x, -0.4),
    "integers": lambda x: _integers(x) // 3 + _integers(x) % -5 - (_integers(x) << 2),
    "mixed types": lambda x: (x > 0) + _integers(x) * 0.5 + x.to(torch.float64),
    "near 0": lambda x: torch.log1p(1e-4 * x) * 1e4 + torch.expm1(1e-4 * x) * 1e4,
    "asinh": lambda x: torch.asinh(100 * x),
    "addbmm": lambda x: torch.addbmm(x[0, 0, 0, :8], x[0], x[1].mT, beta=0.5, alpha=2),
    "bilinear": lambda x: F.bilinear(x[..., :3], x[..., 3:], x[:, 0, :3, :7], x[0, 0, 0, :2]),
    "angle": lambda x: x.angle(),
    "unfold of a number": lambda x: x.sum().unfold(0, 1, 1),
    "statistics of groups": lambda x: torch.cat(
        [part.flatten() for part in torch.native_group_norm(x, None, None, 2, 4, 80, 2, 1e-5)]
    ),
    "instance_norm": lambda x: F.instance_norm(x),
    "a condition": lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
    "no elements": lambda x: torch.cat([x[:0].cumsum(1), x, x[:0].softmax(2)]),
    "buckets": lambda x: torch.bucketize(x, torch.linspace(-2, 2, 9)).float(),
    "roll": lambda x: x.roll((2, -3), (1, 3)),
    "lstm": _recurrent(torch.nn.LSTM, bidirectional=True, batch_first=True),
    "lstm of steps first": _recurrent(torch.nn.LSTM, bias=False),
    "layers of lstm": _recurrent(torch.nn.LSTM, num_layers=2, bidirectional=True),
    "gru": _recurrent(torch.nn.GRU, bidirectional=True, batch_first=True),
    "gru of an empty batch": lambda x: torch.cat([LAYER(x[0, :0])[0], x[0, :, :, :6]]),
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    """Tensors go in and come out in 16 bits; sums are those of float32."""
    torch.manual_seed(0)
    x = torch.randn(3, 4096, dtype=dtype)
    model = Function(lambda x: F.layer_norm(x.cumsum(1), (4096,)) + x.mean()).eval()
    result = tvm_ios.compile(model, [x], search=False, threads=1)(x)
    assert result.dtype == dtype
    expected = model(x.double())
    assert (result - expected).abs().max() <= 0.02 * expected.abs().max()


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_in_double_precision(kind: type[torch.nn.Module]) -> None:
    x = torch.randn(4, 2, 10, dtype=torch.float64)
    layer = kind(10, 6, num_layers=2, bidirectional=True).double().eval()
    model = Function(lambda x: layer(x)[0]).eval()
    result = tvm_ios.compile(model, [x], search=False, threads=1)(x)
    torch.testing.assert_close(result, model(x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True)[1], "windows of several sizes"),
        (lambda x: x[x > 0], "size the data decide"),
        (lambda x: PROJECTED(x[0])[0], "lstm.* projects its state"),
        (lambda x: torch.igamma(x, x) + torch.linalg.svdvals(x).sum(), "_linalg_svd.*igamma"),
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


def test_weights_that_are_repeated_are_no_new_constants() -> None:
    """PyTorch decomposes a product of transposed data into one for each row."""
    layers = [torch.nn.Linear(256, 256) for _ in range(3)]
    model = Function(lambda x: sum(layer(x.transpose(0, 1)) for layer in layers)).eval()
    assert from_module(model, [torch.randn(2, 4000, 256)]) is not None


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
