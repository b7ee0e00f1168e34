# SPDX-License-Identifier: Apache-2.0
"""The benchmark of networks that leave dimensions open."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import any_shape
from peer.process import ContenderError
from support.open_networks import save, weight


def network(tmp_path: Path, op: str) -> Path:
    inputs = ["x", "w"] if op == "MatMul" else ["x"]
    node = helper.make_node(op, inputs, ["y"])
    return save(tmp_path / "m.onnx", [node], {"x": ["n", 8]}, ["y"], [weight("w", 8, 4)])


def test_sizes_are_compared(tmp_path: Path) -> None:
    """Each contender in its process; what cannot take part says why."""
    file = network(tmp_path, "MatMul")
    inputs = [np.random.default_rng(0).standard_normal((n, 8)).astype("float32") for n in (3, 17)]
    rows = list(any_shape.try_shapes(file, inputs, 1, tmp_path))
    assert [row["shape"] for row in rows] == [(3, 8), (17, 8)]
    for row in rows:
        assert row["error"] < 1e-5
        assert {"any", "fixed", "onnxruntime"} <= row.keys()
        assert ("openvino" in row) != ("openvino_failure" in row)


def test_what_does_not_come_in_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ContenderError, match="leaves dimensions open: n of x"):
        list(any_shape.try_shapes(network(tmp_path, "Unique"), [], 1, tmp_path))


def test_the_page_has_what_was_found_out(tmp_path: Path) -> None:
    row = {"model": "bert", "shape": [1, 16], "any": 2.0, "fixed": 1.0, "onnxruntime": 3.0}
    row |= {"error": 1e-6, "any_s": 4.0, "fixed_s": 2.0}
    failed = {"model": "albert", "failure": "it was refused"}
    record = {"threads": 2, "cpu": "a CPU", "date": "2026-11-29", "rows": [row, failed]}
    file, page = tmp_path / "f.json", tmp_path / "p.md"
    file.write_text(json.dumps(record))
    options = ["--models", "bert,albert", "--json", str(file), "--page", str(page)]
    assert any_shape.main(options) == 0
    text = page.read_text()
    assert "Any ÷ fixed: 2.00 in geometric mean" in text
    assert "Best of the others ÷ any: 1.50" in text
    assert "it was refused" in text
