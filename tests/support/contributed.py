# SPDX-License-Identifier: Apache-2.0
"""Models of one operator of ONNX Runtime, and what ONNX Runtime computes of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import tvm_ios

DOMAIN = "com.microsoft"
ROUNDING = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-6}
"""Errors by type, of the largest number of an output."""


@dataclass(frozen=True)
class Node:
    """A node and the arrays that it reads; None for an input that is left out.

    Attributes
    ----------
    kind : str
    inputs : sequence of array or None
    constants : collection of int
        The inputs that are initialisers.
    outputs : sequence of str
        Their names; empty for one that is left out.
    domain : str
    opset : int
    """

    kind: str
    inputs: Sequence[np.ndarray | None]
    constants: Collection[int] = ()
    outputs: Sequence[str] = ("y",)
    domain: str = DOMAIN
    opset: int = 17

    def model(self, **attributes: Any) -> onnx.ModelProto:
        names = ["" if array is None else f"x{i}" for i, array in enumerate(self.inputs)]
        node = helper.make_node(self.kind, names, self.outputs, domain=self.domain, **attributes)
        values = [
            helper.make_tensor_value_info(
                f"x{i}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for i, array in enumerate(self.inputs)
            if array is not None and i not in self.constants
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in self.outputs if name]
        weights = [numpy_helper.from_array(self.inputs[i], f"x{i}") for i in self.constants]
        graph = helper.make_graph([node], "g", values, results, weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def given(self) -> list[np.ndarray]:
        """Return the inputs of the model."""
        return [
            array
            for i, array in enumerate(self.inputs)
            if array is not None and i not in self.constants
        ]


def compiled(path: Path, node: Node, **attributes: Any) -> list[np.ndarray]:
    """Return what this package computes of a node; its model is left in a folder."""
    onnx.save(node.model(**attributes), path / "m.onnx")
    results = tvm_ios.compile(path / "m.onnx", search=False, threads=1)(*node.given())
    several = isinstance(results, (list, tuple))
    return [np.asarray(result) for result in (results if several else [results])]


def by_onnx_runtime(model: onnx.ModelProto, given: Sequence[np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    return list(session.run(None, dict(zip(names, given, strict=True))))


def check_close(results: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    """Compare types, shapes and elements; NaN equals NaN."""
    assert len(results) == len(wanted)
    for result, right in zip(results, wanted, strict=True):
        assert result.dtype == right.dtype
        assert result.shape == right.shape
        if right.dtype.kind in "iub":
            np.testing.assert_array_equal(result, right)
            continue
        finite = np.abs(right.astype("float64"))[np.isfinite(right)]
        bound = ROUNDING[str(right.dtype)] * max(finite.max(initial=0.0), 1e-6)
        np.testing.assert_allclose(
            result.astype("float64"), right.astype("float64"), rtol=0, atol=bound
        )


def check(path: Path, node: Node, **attributes: Any) -> None:
    """Compare a node with ONNX Runtime."""
    wanted = by_onnx_runtime(node.model(**attributes), node.given())
    check_close(compiled(path, node, **attributes), wanted)


def numbers(*shape: int, dtype: Any = "float32", seed: int = 0) -> np.ndarray:
    """Return normally distributed numbers, which differ between shapes."""
    random = np.random.default_rng([seed, *shape])
    return random.standard_normal(shape).astype(dtype)
