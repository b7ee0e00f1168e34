# SPDX-License-Identifier: Apache-2.0
"""A network run by TensorRT, where it and PyTorch, which holds its tensors, are installed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios import zoo
from tvm_ios.errors import UnsupportedError


def tensorrt_run(network: str, inputs: Sequence[np.ndarray], device_id: int, precision: str) -> Any:
    """Build an engine for a network of the zoo, and get it ready to run in a CUDA graph.

    Returns
    -------
    TorchRun

    Raises
    ------
    UnsupportedError
        When TensorRT or PyTorch is not installed, or TensorRT cannot compile the network.
    """
    try:
        import tensorrt
        import torch

        from tvm_ios.baselines.torch_runs import TorchRun, captured_in_graph
    except ImportError as error:
        raise UnsupportedError(f"{error.name} is not installed") from error
    device = torch.device("cuda", device_id)
    engine = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.ERROR)).deserialize_cuda_engine(
        _build(tensorrt, network, precision)
    )
    context = engine.create_execution_context()
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    is_input = {n: engine.get_tensor_mode(n) == tensorrt.TensorIOMode.INPUT for n in names}
    given = iter(inputs)
    tensors = {}
    for name in names:
        if is_input[name]:
            tensors[name] = torch.from_numpy(next(given)).to(device)
        else:
            tensors[name] = torch.empty(tuple(engine.get_tensor_shape(name)), device=device)
        context.set_tensor_address(name, tensors[name].data_ptr())
    results = [tensors[name] for name in names if not is_input[name]]

    def run() -> list[torch.Tensor]:
        if not context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise UnsupportedError("TensorRT did not run the network")
        return results

    return TorchRun(device, captured_in_graph(run, device))


def _build(tensorrt: Any, network: str, precision: str) -> bytes:
    """The serialized engine, in which TF32 is used only where it is asked for."""
    builder = tensorrt.Builder(tensorrt.Logger(tensorrt.Logger.ERROR))
    definition = builder.create_network(0)
    parser = tensorrt.OnnxParser(definition, tensorrt.Logger(tensorrt.Logger.ERROR))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.onnx"
        zoo.export_onnx(network, path)
        if not parser.parse(path.read_bytes()):
            raise UnsupportedError(f"TensorRT cannot read it: {parser.get_error(0).desc()}")
    config = builder.create_builder_config()
    flags = tensorrt.BuilderFlag
    config.clear_flag(flags.TF32)
    for name, flag in (("tf32", "TF32"), ("fp16", "FP16"), ("bf16", "BF16")):
        if precision == name:
            config.set_flag(getattr(flags, flag))
    engine = builder.build_serialized_network(definition, config)
    if engine is None:
        raise UnsupportedError("TensorRT cannot compile it")
    return engine
