# SPDX-License-Identifier: Apache-2.0
"""A network of the zoo on a GPU without a search, and its answers in double precision."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.backend.cuda.target import resolve_cuda
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend import zoo
from tvm_ios.measure.runners import LocalRunner
from tvm_ios.options import PRECISIONS, Options
from tvm_ios.schedule import Schedule
from tvm_ios_runtime.session import leaves

SEQUENTIAL = "sequential"


def arguments(description: str) -> argparse.ArgumentParser:
    """What a step for one network is told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("network", help="of the zoo")
    parser.add_argument("--device-id", type=int, default=0)
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--cudnn", action="store_true")
    return parser


class Unsearched:
    """A network with an operator a stage and the kernels that should be fastest.

    Parameters
    ----------
    args : argparse.Namespace
        What :func:`arguments` has parsed.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        options = Options(precision=args.precision, cudnn=args.cudnn)
        target = resolve_cuda("cuda", args.device_id)
        self._scheduler = Scheduler.prepare(
            zoo.load(args.network), target, options=options, runner=LocalRunner(args.device_id)
        )
        self.schedule: Schedule = self._scheduler.unsearched()
        self.variants = self._scheduler.compile({SEQUENTIAL: self.schedule})

    def inputs(self, seed: int = 0) -> list[Any]:
        """Random inputs, as the virtual machine takes them."""
        return self._scheduler.random_inputs(seed)

    def outputs(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """What the network computes of them."""
        return [tensor.numpy() for tensor in leaves(self.variants(SEQUENTIAL, inputs))]


class Reference:
    """A network of the zoo by PyTorch in double precision, on the CPU; without it, by ONNX Runtime.

    Attributes
    ----------
    name : str
        Who computes.

    Raises
    ------
    ImportError
        When neither is installed.
    """

    def __init__(self, network: str) -> None:
        try:
            self._run, self.name = _by_torch(network), "PyTorch, float64"
        except ImportError:
            self._run, self.name = _by_onnx_runtime(network), "ONNX Runtime, float32"

    def __call__(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        return self._run([tensor.numpy() for tensor in leaves(inputs)])


def relative_error(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference relative to the largest expected value, over all outputs."""
    return max(
        float(np.abs(a.astype("float64") - e).max() / np.abs(e).max())
        for a, e in zip(actual, expected, strict=True)
    )


def _by_torch(network: str):
    import torch

    from tvm_ios.baselines.torch_module import torch_module

    module = torch_module(f"zoo:{network}", None).double()

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        tensors = [torch.from_numpy(array) for array in arrays]
        tensors = [t.double() if t.is_floating_point() else t for t in tensors]
        with torch.no_grad():
            result = module(*tensors)
        results = result if isinstance(result, (tuple, list)) else [result]
        return [tensor.numpy() for tensor in results]

    return run


def _by_onnx_runtime(network: str):
    import onnxruntime

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.onnx"
        zoo.export_onnx(network, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))
