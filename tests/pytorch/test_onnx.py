# SPDX-License-Identifier: Apache-2.0
"""From PyTorch to ONNX, as its exporter writes it, and from ONNX to PyTorch's operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

from peer import models
from support.cli import SHAPE, reference, relative_error
from tvm_ios.baselines.onnx_torch import to_module
from tvm_ios.cli.main import main


def test_pytorch_export(capsys, tmp_path: Path) -> None:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            conv = torch.nn.Conv2d
            self.stem = torch.nn.Sequential(conv(3, 16, 3, 2, 1), torch.nn.BatchNorm2d(16))
            self.branches = torch.nn.ModuleList([conv(16, 16, 1), conv(16, 16, 3, padding=1)])
            self.pool = torch.nn.AdaptiveAvgPool2d(1)
            self.head = torch.nn.Linear(32, 10)

        def forward(self, x):
            x = torch.nn.functional.max_pool2d(torch.relu(self.stem(x)), 2)
            x = torch.cat([torch.relu(branch(x)) for branch in self.branches], 1)
            return torch.softmax(self.head(torch.flatten(self.pool(x), 1)), 1)

    torch.manual_seed(0)
    model, library, out = (tmp_path / name for name in ("net.onnx", "net.so", "out.npz"))
    image = torch.randn(2, *SHAPE[1:])
    torch.onnx.export(
        Network().eval(),
        (image,),
        model,
        dynamo=True,
        external_data=True,
        dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=8)},),
        input_names=["image"],
        verbose=False,
    )
    assert (tmp_path / "net.onnx.data").exists()  # weights in a file of their own
    assert main(["bench", str(model)]) == 4
    assert "open: batch of image; fix them with --dim batch=1" in capsys.readouterr().err
    assert main(["compile", str(model), "-o", str(library), "--batch", "2"]) == 0
    np.savez(tmp_path / "in.npz", image=image.numpy())
    assert main(["run", str(library), "-i", str(tmp_path / "in.npz"), "-o", str(out)]) == 0
    with np.load(out) as results:
        error = relative_error(results["output_0"], reference(model, image.numpy()))
    assert error < 1e-3


@pytest.mark.parametrize("name", ["inception_v3_small", "nasnet_a_small", "bert_tiny"])
def test_networks_as_modules_of_pytorch(name: str, tmp_path: Path) -> None:
    model = models.load(name, 2, tmp_path)
    session = ort.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, model.inputs)
    with torch.no_grad():
        (actual,) = to_module(onnx.load(model.path))(*map(torch.from_numpy, model.inputs.values()))
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-5 * np.abs(expected).max())
