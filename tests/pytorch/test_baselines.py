# SPDX-License-Identifier: Apache-2.0
"""PyTorch beside ours: on the CPU here, as it would on a GPU but for the CUDA graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from support.cli import SHAPE, reference, save_branches
from support.networks import assert_close
from tvm_ios import zoo
from tvm_ios.baselines.contenders import NAMES, QUICK_NAMES
from tvm_ios.baselines.gpu import gpu_peers
from tvm_ios.baselines.torch_module import torch_module
from tvm_ios.baselines.torch_runs import torch_runs

CPU = torch.device("cpu")
IMAGE = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    path = tmp_path / "branches.onnx"
    save_branches(path)
    return path


@pytest.mark.parametrize("names", [NAMES, QUICK_NAMES])
def test_all_ways_compute_the_network(names: tuple[str, ...], branches: Path) -> None:
    peers = torch_runs(str(branches), None, [IMAGE], CPU, "fp32", names=names)
    assert peers.left_out == {}
    assert set(peers.ready) == set(names)
    for peer in peers.ready.values():
        (actual,) = peer.outputs()
        assert_close(actual, reference(branches, IMAGE), 1e-5)
        assert peer.timer(2)() > 0


def test_half_precision(branches: Path) -> None:
    peers = torch_runs(str(branches), None, [IMAGE], CPU, "bf16")
    (actual,) = peers.ready["torch_cudnn"].outputs()
    error = np.abs(actual - reference(branches, IMAGE)).max()
    assert 1e-6 < error < 0.1


def test_networks_of_the_zoo_have_their_weights(tmp_path: Path) -> None:
    (info,) = zoo.inputs("randwire_tiny", batch=2)
    image = np.random.default_rng(0).standard_normal(info.shape).astype("float32")
    zoo.export_onnx("randwire_tiny", tmp_path / "net.onnx", batch=2)
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    (expected,) = session.run(None, {info.name: image})
    with torch.no_grad():
        (actual,) = torch_module("zoo:randwire_tiny", 2)(torch.from_numpy(image))
    assert_close(actual.numpy(), expected, 1e-4)


def test_exported_programs(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(module, (torch.from_numpy(IMAGE),)), path)
    (actual,) = torch_runs(str(path), None, [IMAGE], CPU, "fp32").ready["torch_cudnn"].outputs()
    with torch.no_grad():
        assert_close(actual, module(torch.from_numpy(IMAGE)).numpy(), 1e-5)


def test_what_cannot_be_converted_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "branches.onnx"
    save_branches(path, head="Hardmax")
    peers = torch_runs(str(path), None, [IMAGE], CPU, "fp32")
    assert peers.ready == {}
    assert set(peers.left_out) == set(NAMES)
    assert all("Hardmax" in why for why in peers.left_out.values())
    peers = torch_runs("model.relay", None, [IMAGE], CPU, "fp32")
    assert all("give it as ONNX" in why for why in peers.left_out.values())


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    peers = gpu_peers("zoo:squeezenet", None, [IMAGE], 0, "fp32")
    assert set(peers.left_out) == set(NAMES)
    assert all("finds no GPU" in why for why in peers.left_out.values())
