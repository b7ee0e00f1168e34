# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors on a GPU: models take them there, and give them back there."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tvm_ios
from gpu_support import SHAPE, branches, image, target
from tvm_ios_env.gpu import gpus

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch is installed without CUDA", allow_module_level=True)


@pytest.fixture(scope="module")
def model() -> tvm_ios.CompiledModel:
    return tvm_ios.compile(branches(), target=target(), search=False)


def on_gpu(seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(image(seed)).cuda()


def expect(model: tvm_ios.CompiledModel, seed: int = 0) -> torch.Tensor:
    """What the model makes of an array on the host."""
    return torch.from_numpy(model(image(seed)))


def test_nothing_goes_through_the_host(model) -> None:
    expected = [expect(model, seed) for seed in range(3)]
    results = [model(on_gpu(seed)) for seed in range(3)]  # none is written over by a later run
    for result, wanted in zip(results, expected, strict=True):
        assert result.device == torch.device("cuda", 0)
        assert torch.equal(result.cpu(), wanted)
    x = on_gpu()
    model(x)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        model(x)
        torch.cuda.synchronize()
    names = [event.name for event in profile.events()]
    assert not any("HtoD" in name or "DtoH" in name for name in names), names


def test_views_and_gradients(model) -> None:
    expected = expect(model)
    wide = torch.zeros(*SHAPE[:-1], 2 * SHAPE[-1], device="cuda")
    wide[..., ::2] = on_gpu()
    assert torch.equal(model(wide[..., ::2]).cpu(), expected)
    flat = torch.zeros(on_gpu().numel() + 1, device="cuda")
    flat[1:] = on_gpu().flatten()
    assert torch.equal(model(flat[1:].view(SHAPE)).cpu(), expected)
    result = model(on_gpu().requires_grad_())
    assert not result.requires_grad
    assert torch.equal(result.cpu(), expected)


def test_tensors_on_the_host_come_back_there(model) -> None:
    result = model(torch.from_numpy(image()))
    assert result.device.type == "cpu"
    assert torch.equal(result, expect(model))


def test_streams_are_kept_in_order(model) -> None:
    """What is made and read on a stream of one's own, while others are busy."""
    expected = [expect(model, seed) for seed in range(8)]
    streams = [torch.cuda.Stream() for _ in range(3)]
    slow = torch.randn(4096, 4096, device="cuda")
    inputs = [on_gpu(seed) for seed in range(8)]
    torch.cuda.synchronize()
    results = []
    for seed, x in enumerate(inputs):
        with torch.cuda.stream(streams[seed % 3]):
            (slow @ slow).sum()  # the input comes late
            result = model(x * 1.0)
            results.append(result + 0.0)
            del result  # its memory is another's from here on
    torch.cuda.synchronize()
    for result, wanted in zip(results, expected, strict=True):
        assert torch.equal(result.cpu(), wanted)


def test_threads_with_a_stream_each(model) -> None:
    expected = [expect(model, seed) for seed in range(4)]
    one, all_warm, wrong = threading.Lock(), threading.Barrier(4), []

    def work(seed: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            with one:  # a first run captures a graph, during which nobody may ask for anything
                x = on_gpu(seed)
                model(x)
            all_warm.wait()
            for _ in range(100):
                if not torch.equal(model(x).cpu(), expected[seed]):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_another_gpu(model) -> None:
    if len(gpus().devices) < 2:
        pytest.skip("there is one GPU")
    with pytest.raises(ValueError, match=r"runs on CUDA device 0, but .* is on CUDA device 1"):
        model(on_gpu().to("cuda:1"))
    other = tvm_ios.compile(branches(), target=target(1), device_id=1, search=False)
    result = other(on_gpu().to("cuda:1"))
    assert result.device == torch.device("cuda", 1)
    assert torch.cuda.current_device() == 0
    np.testing.assert_allclose(result.cpu().numpy(), model(image()), rtol=1e-4, atol=1e-5)


def test_a_model_for_the_cpu_wants_the_host() -> None:
    model = tvm_ios.compile(branches(), search=False)
    with pytest.raises(ValueError, match="runs on the CPU; move its inputs there"):
        model(on_gpu())


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Conv2d(64, 32, 3, padding=1)
        self.narrow = torch.nn.Conv2d(64, 8, 1)

    def forward(self, x):
        return torch.cat([torch.relu(self.wide(x)), self.narrow(x)], 1)


@torch.no_grad()
def test_a_backend_of_torch_compile() -> None:
    """A module on a GPU runs there, and stays as it is."""
    from tvm_ios.torch_backend import tvm_ios as backend

    module = Network().eval().cuda()
    compiled = torch.compile(module, backend=backend, dynamic=False, options={"search": False})
    with torch.backends.cudnn.flags(allow_tf32=False):
        expected = module(on_gpu())
    actual = compiled(on_gpu())
    assert actual.is_cuda
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert module.wide.weight.is_cuda
