# SPDX-License-Identifier: Apache-2.0
"""Networks as exporters write them to ONNX, from texts of nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from tvm import relax

import tvm_ios
from tvm_ios.frontend.models import load_model
from tvm_ios.relax_ir.expressions import op_name
from tvm_ios.rewrite.prepare import prepare

ONLY_AS_WRITTEN = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
"""ONNX Runtime's own search for compositions takes any power for a square."""

DEPTH = 512
"""The largest heads of attentions that are found."""


@dataclass(frozen=True)
class Exported:
    """A network.

    Attributes
    ----------
    nodes : str
        Nodes that compute ``y``, in ONNX's syntax.
    inputs : mapping of str to shapes
        The inputs, which are float32 unless they are given. A name is a dimension that stays open.
    constants : mapping of str to arrays
        What the nodes name beside.
    given : mapping of str to arrays
        The values of inputs that are not random.
    opset : int
    """

    nodes: str
    inputs: Mapping[str, tuple[int | str, ...]]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    opset: int = 13

    def save(self, directory: Path) -> Path:
        """Write the model."""
        types = {name: "int64" if name in self.given else "float" for name in self.inputs}
        inputs = ", ".join(
            f"{types[name]}[{', '.join(map(str, shape))}] {name}"
            for name, shape in self.inputs.items()
        )
        graph = onnx.parser.parse_graph(f"exported ({inputs}) => (float y) {{ {self.nodes} }}")
        graph.initializer.extend(
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in self.constants.items()
            if re.search(rf"\b{name}\b", self.nodes)
        )
        opsets = [onnx.helper.make_opsetid("", self.opset)]
        path = directory / "model.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path

    def operators(self, directory: Path) -> list[str]:
        """Return the operators that the prepared function calls, each that is called by itself."""
        names: list[str] = []
        function = prepare(load_model(str(self.save(directory))), attention_depth=DEPTH)["main"]
        relax.analysis.post_order_visit(function, lambda expr: names.append(op_name(expr)))
        return [name for name in names if name]

    def check(
        self, directory: Path, seed: int = 0, tolerance: float = 1e-5, *sizes: Mapping[str, int]
    ) -> None:
        """Compare the answers of the compiled network with those of ONNX Runtime.

        Parameters
        ----------
        directory : pathlib.Path
            Where the model is written to.
        seed : int
        tolerance : float
        sizes : mapping of str to int
            Of the dimensions that stay open, for each call.
        """
        random, path = np.random.default_rng(seed), self.save(directory)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = ONLY_AS_WRITTEN
        reference = onnxruntime.InferenceSession(path, options)
        compiled = tvm_ios.compile(str(path), search=False)
        for held in sizes or ({},):
            values = {
                name: self.given[name] if name in self.given else _numbers(random, shape, held)
                for name, shape in self.inputs.items()
            }
            (expected,) = reference.run(None, values)
            found = compiled(*values.values())
            np.testing.assert_allclose(found, expected, rtol=10 * tolerance, atol=tolerance)


def _numbers(
    random: np.random.Generator, shape: tuple[int | str, ...], sizes: Mapping[str, int]
) -> np.ndarray:
    known = [sizes[size] if isinstance(size, str) else size for size in shape]
    return 2 * random.standard_normal(known, "float32") + np.float32(0.5)
