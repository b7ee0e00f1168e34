# SPDX-License-Identifier: Apache-2.0
"""Networks of one operator or a few, whose sizes are open, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import tvm_ios

Dim = int | str


def weight(name: str, *shape: int, dtype: str = "float32", scale: float = 0.25) -> onnx.TensorProto:
    """Return a constant of random numbers."""
    random = np.random.default_rng(abs(hash((name, shape))) % 1000)
    return numpy_helper.from_array((random.standard_normal(shape) * scale).astype(dtype), name)


def numbers(name: str, values: object, dtype: str = "int64") -> onnx.TensorProto:
    """Return a constant list."""
    return numpy_helper.from_array(np.array(values, dtype), name)


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Dim]],
    outputs: Sequence[str],
    weights: Sequence[onnx.TensorProto] = (),
    opset: int = 21,
    dtypes: Mapping[str, int] | None = None,
) -> Path:
    """Write a network; a dimension of its inputs that is a name is open."""
    given = [
        helper.make_tensor_value_info(n, (dtypes or {}).get(n, TensorProto.FLOAT), shape)
        for n, shape in inputs.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", given, results, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def assert_any_shape(
    path: Path,
    calls: Sequence[Sequence[Sequence[int]]],
    *,
    tolerance: float = 1e-4,
    threads: int = 2,
) -> tvm_ios.CompiledModel:
    """Compile a network for any sizes, and compare it with ONNX Runtime at some.

    Parameters
    ----------
    path : Path
        An ONNX file.
    calls : sequence of sequence of shapes
        The shapes of all inputs, of each call.
    tolerance : float
        Of differences, relative to the largest element.
    threads : int
    """
    model = tvm_ios.compile(path, search=False, threads=threads)
    assert any(None in info.shape for info in model.inputs), "sizes are open"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    for shapes in calls:
        arrays = [
            _drawn(random, info.type, shape)
            for info, shape in zip(session.get_inputs(), shapes, strict=True)
        ]
        names = [info.name for info in session.get_inputs()]
        wanted = session.run(None, dict(zip(names, arrays, strict=True)))
        found = model(*arrays)
        for ours, theirs in zip(
            found if isinstance(found, tuple) else (found,), wanted, strict=True
        ):
            assert ours.shape == theirs.shape, shapes
            assert ours.dtype == theirs.dtype, shapes
            bound = tolerance * max(1.0, np.abs(theirs).max(initial=0))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound, err_msg=str(shapes))
    return model


def _drawn(random: np.random.Generator, kind: str, shape: Sequence[int]) -> np.ndarray:
    if kind == "tensor(float)":
        return random.standard_normal(shape).astype("float32")
    dtype = {"tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(bool)": "bool"}[kind]
    return random.integers(0, 2, shape).astype(dtype)
