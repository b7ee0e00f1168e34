# SPDX-License-Identifier: Apache-2.0
"""The operators of torchvision that detectors use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torchvision.ops

import tvm_ios
from support.torch_functions import Function
from tvm_ios.errors import ModelError

BOXES = torch.tensor(
    [
        [0, 1, 2, 12, 9],
        [1, 0, 0, 3, 3],
        [0, 4, 4, 20, 18],
        [1, 0.5, 1.5, 2.5, -4],
        [0, -7, -7, 40, 40],
        [0, 30, 30, 31, 31],
    ]
)


def _deformed(data: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    weight = torch.arange(4 * 2 * 6).reshape(4, 2, 3, 2) % 5 - 2.0
    sizes = {"stride": (1, 2), "padding": (1, 0), "dilation": (2, 1)}
    return torchvision.ops.deform_conv2d(data, offset, weight, torch.ones(4), **sizes, mask=mask)


def _results(model: torch.nn.Module, inputs: list[torch.Tensor]) -> torch.Tensor:
    return tvm_ios.compile(model, inputs, search=False, threads=1)(*inputs)


@pytest.mark.parametrize("masked", [False, True])
def test_deformed_convolutions(masked: bool) -> None:
    torch.manual_seed(0)
    data, offset = torch.randn(2, 4, 9, 11), 3 * torch.randn(2, 24, 7, 5)
    inputs = [data, offset, torch.rand(2, 12, 7, 5)][: 2 + masked]
    model = Function(lambda x, at, mask=None: _deformed(x, at, mask))
    torch.testing.assert_close(_results(model, inputs), model(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ratio", [-1, 2])
@pytest.mark.parametrize("half_pixel", [False, True])
def test_aligned_regions(ratio: int, half_pixel: bool) -> None:
    torch.manual_seed(0)
    pool = torchvision.ops.RoIAlign((5, 7), 0.7, ratio, half_pixel)
    model, inputs = Function(pool), [torch.randn(2, 3, 20, 22)]
    inputs.append(BOXES)
    torch.testing.assert_close(_results(model, inputs), model(*inputs), rtol=1e-4, atol=1e-5)


def test_largest_of_regions() -> None:
    torch.manual_seed(0)
    pool = torchvision.ops.RoIPool((5, 7), 1.0)
    model, inputs = Function(pool), [torch.randn(2, 3, 20, 22)]
    inputs.append(BOXES)
    torch.testing.assert_close(_results(model, inputs), model(*inputs))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torchvision.ops.nms(x, x[:, 0], 0.5), "nms.*size the data decide"),
        (
            lambda x: torch.ops.torchvision.roi_pool(x[None, None], BOXES[:1], 1.0, 2, 2)[1],
            "roi_pool.*places of the largest",
        ),
    ],
)
def test_refused(function: Callable, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        tvm_ios.compile(Function(function), [torch.rand(6, 4)], search=False)
