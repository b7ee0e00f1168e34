# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch's tensors, compiled and compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tvm_ios


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def assert_same(
    function: Callable[..., Any], *tensors: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Check that a function that is compiled gives PyTorch's results, NaN and types, too."""
    with torch.no_grad():
        expected = function(*tensors)
    found = tvm_ios.compile(Function(function), list(tensors), search=False, threads=1)(*tensors)
    wanted = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    results = list(found) if isinstance(found, tuple) else [found]
    assert len(results) == len(wanted)
    for result, right in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, right, rtol=rtol, atol=atol, equal_nan=True)
