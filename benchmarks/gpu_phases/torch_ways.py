# SPDX-License-Identifier: Apache-2.0
"""The ways in which PyTorch runs a network: kernel by kernel, in a CUDA graph, and compiled.

As a program it lets torch.compile fill its cache on disk, beside what is not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_phases.networks import arguments
from tvm_ios.baselines.contenders import Peers

EAGER, EAGER_GRAPH, COMPILE = WAYS = ("torch_eager", "torch_eager_graph", "torch_compile")
_WARM_UP = 4  # runs, after which all that is compiled or captured is


def torch_ways(
    network: str,
    inputs: Sequence[np.ndarray],
    device_id: int,
    precision: str,
    names: Sequence[str] = WAYS,
) -> Peers:
    """Get PyTorch ready, channels last; a way that fails is left out."""
    try:
        import torch

        from tvm_ios.baselines.torch_runs import TorchRun
    except ImportError:
        return Peers(left_out=dict.fromkeys(names, "PyTorch is not installed"))
    if not torch.cuda.is_available():
        return Peers(left_out=dict.fromkeys(names, f"PyTorch {torch.__version__} finds no GPU"))
    peers, device = Peers(), torch.device("cuda", device_id)
    module, tensors = _placed(network, inputs, device, precision)
    for name in names:
        try:
            run = TorchRun(device, _prepared(name, module, tensors, device))
            run.run_once()
            peers.ready[name] = run
        except Exception as error:  # what a compiler raises is not one type
            peers.left_out[name] = " ".join(str(error).split())[:300]
    return peers


def _placed(network: str, inputs: Sequence[np.ndarray], device: Any, precision: str) -> Any:
    """The module and its inputs in the precision, on the device."""
    import torch

    from tvm_ios.baselines.torch_module import torch_module

    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    module = torch_module(f"zoo:{network}", None).to(device, dtype)
    tensors = [torch.from_numpy(array).to(device) for array in inputs]
    tensors = [t.to(dtype) if t.is_floating_point() else t for t in tensors]
    last = torch.channels_last
    tensors = [t.to(memory_format=last) if t.dim() == 4 else t for t in tensors]
    return module.to(memory_format=last), tensors


def _prepared(name: str, module: Any, inputs: Sequence[Any], device: Any) -> Callable[[], Any]:
    """One way, without autotuning, which takes minutes; CUDA graphs are torch.compile's own."""
    import torch

    from tvm_ios.baselines.torch_runs import captured_in_graph

    callee = torch.compile(module, mode="reduce-overhead") if name == COMPILE else module

    def run() -> Any:
        with torch.no_grad():
            return callee(*inputs)

    if name == EAGER_GRAPH:
        return captured_in_graph(run, device)
    for _ in range(_WARM_UP):
        run()
    return run


def main() -> None:
    """Compile, and forget what is compiled."""
    from tvm_ios.frontend import zoo

    args = arguments(__doc__).parse_args()
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(i.shape).astype(i.dtype) for i in zoo.inputs(args.network)]
    torch_ways(args.network, inputs, args.device_id, args.precision, [COMPILE])


if __name__ == "__main__":
    main()
