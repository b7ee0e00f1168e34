# SPDX-License-Identifier: Apache-2.0
"""What the tests of the zoo share: networks looked at, and run by TVM and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_ios import zoo
from tvm_ios.target import resolve

# The network is compared, not the code that LLVM makes of it, which takes most of the time.
UNOPTIMISED = resolve('{"kind": "llvm", "opt-level": 0}', threads=2)

Sizes = Mapping[str, int]

# Small enough to be run by TVM's default kernels, in batches, with sizes that are not their own.
SMALL_CASES: list[tuple[str, Sizes]] = [
    ("bert_tiny", {"batch": 2, "length": 9}),
    ("bilstm_small", {"batch": 2}),
    ("convnext_tiny_small", {"batch": 2}),
    ("darts_small", {"image_size": 18}),
    ("deep_and_cross_small", {"batch": 3}),
    ("densenet_small", {}),
    ("dlrm_small", {"batch": 2}),
    ("dpn68_small", {}),
    ("echo_small", {}),
    ("ensemble_small", {"batch": 2}),
    ("experts_small", {"batch": 2}),
    ("googlenet_small", {"batch": 2}),
    ("heads_small", {"batch": 2}),
    ("inception_v3_small", {}),
    ("mixer_b16_small", {"batch": 2}),
    ("mobilenet_v2_small", {"image_size": 37}),
    ("nasnet_a_small", {}),
    ("nasrnn_small", {"batch": 3}),
    ("nf_resnet50_small", {"image_size": 41}),
    ("poolformer_s12_small", {"batch": 2}),
    ("randwire_tiny", {"batch": 2}),
    ("res2net50_small", {"image_size": 33}),
    ("resnet50_small", {"image_size": 33}),
    ("resnext50_small", {"batch": 2}),
    ("rgcn_small", {"batch": 2}),
    ("squeezenet", {"batch": 2, "image_size": 33}),
    ("wavenet_small", {"batch": 2}),
    ("wide_and_deep_small", {"batch": 5}),
    ("xception_small", {}),
]


def calls(mod: tvm.IRModule, op_name: str) -> list[relax.Call]:
    """The calls of an operator, in the order of their bindings."""
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    return [value for value in values if isinstance(value, relax.Call) and value.op.name == op_name]


def shape_of(expr: relax.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in expr.ty.shape)


def constants(mod: tvm.IRModule) -> list[np.ndarray]:
    """The weights, each once, in the order of their first use."""
    found: dict[relax.Expr, np.ndarray] = {}

    def collect(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst) and expr not in found:
            found[expr] = expr.value.numpy()

    relax.analysis.post_order_visit(mod["main"], collect)
    return list(found.values())


def random_inputs(name: str, sizes: Sizes, seed: int = 0) -> dict[str, np.ndarray]:
    """A value for each input; a row of a table is the first or the second."""
    random = np.random.default_rng(seed)
    return {
        value.name: random.standard_normal(value.shape, dtype=np.float32)
        if value.dtype == "float32"
        else random.integers(0, 2, value.shape, dtype=value.dtype)
        for value in zoo.inputs(name, **sizes)
    }


def run_relax(mod: tvm.IRModule, arguments: Sequence[np.ndarray]) -> np.ndarray:
    machine = relax.VirtualMachine(tvm.compile(mod, target=UNOPTIMISED), tvm.cpu())
    return machine["main"](*map(tvm.runtime.tensor, arguments)).numpy()


def run_onnx(path: Path, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, dict(inputs))
    return output


def reference(name: str, sizes: Sizes, directory: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs of a network, and what ONNX Runtime computes from them by the exported file."""
    path = directory / f"{name}.onnx"
    zoo.export_onnx(name, path, **sizes)
    inputs = random_inputs(name, sizes)
    return inputs, run_onnx(path, inputs)
