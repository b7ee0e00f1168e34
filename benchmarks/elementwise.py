# SPDX-License-Identifier: Apache-2.0
"""Time elementwise operators beside ONNX Runtime and OpenVINO, each in a process of its own.

One line for each operator, or chain of them: milliseconds of ours and theirs, theirs divided by
ours, and the largest difference of ours from ONNX Runtime.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from any_shape import try_shapes
from public.catalogue import INPUT

_OPERATORS = (
    "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh",
    "Asinh", "Acosh", "Atanh", "Erf", "Sigmoid", "Softplus", "Mish",
)  # fmt: skip
_MODELS = {
    **{name: f"y = {name}(x)" for name in _OPERATORS},
    "x^x": "y = Pow(x, x)",
    "x^2.2": "a = Constant<value_float = 2.2>() y = Pow(x, a)",
    "1/sqrt(x)": "r = Sqrt(x) y = Reciprocal(r)",
    "tanh(exp(x) sin(x) + x)": "a = Exp(x) b = Sin(x) c = Mul(a, b) d = Add(c, x) y = Tanh(d)",
}
"""Nodes that compute ``y`` of the vector ``x``, by the names of models."""
_RANGES = {**dict.fromkeys(("Asin", "Acos", "Atanh"), (-0.99, 0.99)), "Acosh": (1.0, 9.0)}
"""The numbers of those that are not defined from 0.1 to 3."""


def _save(nodes: str, path: Path) -> None:
    """Write a model of a vector of any length."""
    graph = f"model (float[n] {INPUT}) => (float[n] y) {{ {nodes} }}"
    header = '<ir_version: 8, opset_import: ["" : 18]>'
    onnx.save(onnx.parser.parse_model(f"{header}\n{graph}"), path)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=";".join(_MODELS), metavar="NAME;...")
    parser.add_argument("--numbers", type=int, default=1 << 18)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args(argv)
    random = np.random.default_rng(0)
    for model in arguments.models.split(";"):
        x = random.uniform(*_RANGES.get(model, (0.1, 3.0)), arguments.numbers).astype("float32")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _save(_MODELS[model], folder / "model.onnx")
            (row,) = try_shapes(folder / "model.onnx", [x], arguments.threads, folder)
        theirs = {peer: row[peer] for peer in ("onnxruntime", "openvino") if peer in row}
        times = ", ".join(f"{p} {t:.3f} ({t / row['fixed']:.2f})" for p, t in theirs.items())
        print(f"{model}: {row['fixed']:.3f} ms, {times}, error {row['error']:.0e}", flush=True)


if __name__ == "__main__":
    main()
