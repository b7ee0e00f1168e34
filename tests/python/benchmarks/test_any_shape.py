# SPDX-License-Identifier: Apache-2.0
"""The benchmark of networks that leave dimensions open."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper

import any_shape
from support.open_networks import save, weight


def test_sizes_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": ["n", 8]},
        ["y"],
        [weight("w", 8, 4)],
    )
    sizes = ["--shapes", "[3,8]", "--shapes", "x:[17,8]", "--repeat", "3"]
    assert any_shape.main([str(path), *sizes]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[4:]] == [
        "[3, 8]",
        "[17, 8]",
        "geometric mean",
    ]
    assert all(float(line.split("|")[7]) < 1e-5 for line in lines[4:6])


def test_what_does_not_fit_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Unique", ["x"], ["y"])], {"x": ["n", 8]}, ["y"]
    )
    assert any_shape.main([str(path), "--shapes", "[3,8]"]) == 1
    assert "leaves dimensions open: n of x" in capsys.readouterr().err
