# SPDX-License-Identifier: Apache-2.0
"""Programs that PyTorch's quantisers for export have quantised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed

import tvm_ios
from support.networks import NATIVE


class Quantized(torch.nn.Module):
    """What a quantiser makes of a convolution, a pooling and a product."""

    def __init__(self, low: int) -> None:
        super().__init__()
        self.low = low
        torch.manual_seed(0)
        self.register_buffer("filters", torch.randint(-127, 128, (20, 3, 3, 3), dtype=torch.int8))
        self.register_buffer("matrix", torch.randint(-127, 128, (7, 20), dtype=torch.int8))
        for name, count in (("filter", 20), ("row", 7)):
            self.register_buffer(f"{name}_scales", torch.rand(count) * 0.01 + 0.002)
            self.register_buffer(f"{name}_zeros", torch.zeros(count, dtype=torch.int64))

    def rounded(self, x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
        ops, grid = torch.ops.quantized_decomposed, (scale, zero, self.low, 127, torch.int8)
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *grid), *grid)

    def weights(self, whole: torch.Tensor, name: str) -> torch.Tensor:
        scales, zeros = getattr(self, f"{name}_scales"), getattr(self, f"{name}_zeros")
        return torch.ops.quantized_decomposed.dequantize_per_channel(
            whole, scales, zeros, 0, -127, 127, torch.int8
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        filters = self.weights(self.filters, "filter")
        x = torch.nn.functional.conv2d(self.rounded(x, 0.03, 5), filters, padding=1)
        x = self.rounded(torch.relu(x), 0.02, -128)
        means = self.rounded(torch.nn.functional.max_pool2d(x, 2).mean((2, 3)), 0.01, 3)
        return torch.nn.functional.linear(means, self.weights(self.matrix, "row"))


@pytest.mark.parametrize("low", [-128, -127])
def test_a_quantised_program(low: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file, that is not trusted; the range may be narrower than the type."""
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")
    model, x = Quantized(low).eval(), torch.randn(1, 3, 12, 10)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    library = tvm_ios.compile(tmp_path / "m.pt2", target=NATIVE, search=False)
    kernels = [operator.kernel for operator in library.schedule.operators]
    assert kernels.count("int8") == 2
    expected = model(x).numpy()
    (found,) = library(x.numpy())
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
