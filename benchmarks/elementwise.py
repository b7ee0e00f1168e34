# SPDX-License-Identifier: Apache-2.0
"""Time elementwise operators beside ONNX Runtime and OpenVINO, each in a process of its own.

One line for each operator: milliseconds of ours and theirs, theirs divided by ours, and the largest
difference of ours from ONNX Runtime.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from any_shape import try_shapes
from public.catalogue import INPUT

_OPERATORS = ("Exp", "Log", "Sin", "Cos", "Tanh", "Erf", "Sigmoid", "Softplus", "Mish")


def _save(operator: str, path: Path) -> None:
    """Write a model of one operator, of a vector of any length."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in (INPUT, "y"))
    graph = helper.make_graph([helper.make_node(operator, [INPUT], ["y"])], operator, [x], [y])
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", type=int, default=1 << 18)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args(argv)
    x = np.random.default_rng(0).uniform(0.1, 3.0, arguments.numbers).astype("float32")
    for operator in _OPERATORS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _save(operator, folder / "model.onnx")
            (row,) = try_shapes(folder / "model.onnx", [x], arguments.threads, folder)
        theirs = {peer: row[peer] for peer in ("onnxruntime", "openvino") if peer in row}
        times = ", ".join(f"{p} {t:.3f} ({t / row['fixed']:.2f})" for p, t in theirs.items())
        print(f"{operator}: {row['fixed']:.3f} ms, {times}, error {row['error']:.0e}", flush=True)


if __name__ == "__main__":
    main()
