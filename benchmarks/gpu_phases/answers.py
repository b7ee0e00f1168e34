# SPDX-License-Identifier: Apache-2.0
"""Whether a network without a search answers as PyTorch does: warmed up, captured, and replayed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gpu_phases.networks import arguments, arrays, complaint, relative_error, scheduler
from tvm_ios import zoo
from tvm_ios.compiler.compare import SEQUENTIAL

_IMAGES = 4

Run = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


def main() -> None:
    """Print the errors as JSON."""
    args = arguments(__doc__).parse_args()
    prepared = scheduler(args)
    schedule = prepared.unsearched()
    variants = prepared.compile({SEQUENTIAL: schedule})
    try:
        run, reference = _by_torch(args.network), "PyTorch, float64"
    except ImportError:
        run, reference = _by_onnx_runtime(args.network), "ONNX Runtime, float32"
    errors = []
    for seed in range(_IMAGES):
        inputs = prepared.random_inputs(seed)
        errors.append(relative_error(arrays(variants(SEQUENTIAL, inputs)), run(arrays(inputs))))
    worst = max(errors, key=lambda error: (error != error, error))  # NaN is the worst
    result = {
        "network": args.network,
        "reference": reference,
        "max_rel_errors": errors,
        "kernels": {op.name: op.kernel for op in schedule.operators},
        **complaint(worst, args.precision, reference),
    }
    print(json.dumps(result))


def _by_torch(network: str) -> Run:
    """PyTorch in double precision, on the CPU."""
    import torch

    from tvm_ios.baselines.torch_module import torch_module

    module = torch_module(f"zoo:{network}", None).double()

    def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        tensors = [torch.from_numpy(array) for array in inputs]
        tensors = [t.double() if t.is_floating_point() else t for t in tensors]
        with torch.no_grad():
            result = module(*tensors)
        results = result if isinstance(result, (tuple, list)) else [result]
        return [tensor.numpy() for tensor in results]

    return run


def _by_onnx_runtime(network: str) -> Run:
    import onnxruntime

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.onnx"
        zoo.export_onnx(network, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return lambda inputs: session.run(None, dict(zip(names, inputs, strict=True)))


if __name__ == "__main__":
    main()
