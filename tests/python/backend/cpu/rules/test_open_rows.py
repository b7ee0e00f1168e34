# SPDX-License-Identifier: Apache-2.0
"""Softmax, layer normalisation and reductions of open sizes, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from onnx import NodeProto, TensorProto, helper

from support.open_networks import Dim, assert_any_shape, numbers, save, weight

node = helper.make_node

SHAPES = [
    (1, 1, 1), (2, 3, 4), (1, 5, 7), (3, 2, 15), (1, 4, 16), (2, 1, 17),
    (1, 33, 31), (5, 7, 64), (2, 130, 100), (1, 2, 1000), (1, 1, 129),
]  # fmt: skip


def _check(
    path: Path,
    nodes: Sequence[NodeProto],
    last: Dim,
    constants: Sequence[TensorProto] = (),
) -> None:
    """Compare a network of ``x`` with ONNX Runtime, with one worker and with two."""
    save(path, nodes, {"x": ["a", "b", last]}, ["y"], constants)
    calls = [[(a, b, c if isinstance(last, str) else last)] for a, b, c in SHAPES]
    for threads in (1, 2):
        assert_any_shape(path, calls, threads=threads)


@pytest.mark.parametrize(("axis", "last"), [(0, "c"), (1, "c"), (2, "c"), (1, 20), (2, 20)])
def test_softmax(tmp_path: Path, axis: int, last: Dim) -> None:
    nodes = [
        node("Softmax", ["x"], ["s"], axis=axis),
        node("Mul", ["s", "two"], ["t"]),
        node("Add", ["t", "x"], ["y"]),
    ]
    _check(tmp_path / "m.onnx", nodes, last, [numbers("two", 2.0, "float32")])


@pytest.mark.parametrize("axes", [[2], [1], [0], [0, 1], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
def test_reductions(tmp_path: Path, kind: str, axes: list[int]) -> None:
    nodes = [
        node(kind, ["x", "axes"], ["s"]),
        node("Tanh", ["s"], ["t"]),
        node("Add", ["t", "x"], ["y"]),
    ]
    _check(tmp_path / "m.onnx", nodes, "c", [numbers("axes", axes)])


@pytest.mark.parametrize(("axis", "last"), [(0, "c"), (1, "c"), (2, "c"), (0, 20), (1, 20)])
@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_places(tmp_path: Path, kind: str, axis: int, last: Dim) -> None:
    _check(tmp_path / "m.onnx", [node(kind, ["x"], ["y"], axis=axis)], last)


@pytest.mark.parametrize("length", [7, 20, 256])
def test_layer_norm(tmp_path: Path, length: int) -> None:
    nodes = [
        node("LayerNormalization", ["x", "g", "b"], ["o"]),
        node("Add", ["o", "x"], ["y"]),
    ]
    _check(tmp_path / "m.onnx", nodes, length, [weight("g", length), weight("b", length)])


def test_norm_of_open_rows(tmp_path: Path) -> None:
    nodes = [
        node("ReduceMean", ["x", "axes"], ["m"]),
        node("Sub", ["x", "m"], ["d"]),
        node("Mul", ["d", "d"], ["q"]),
        node("ReduceMean", ["q", "axes"], ["v"]),
        node("Add", ["v", "e"], ["w"]),
        node("Sqrt", ["w"], ["s"]),
        node("Div", ["d", "s"], ["n"]),
        node("Mul", ["n", "g"], ["o"]),
        node("Add", ["o", "x"], ["y"]),
    ]
    constants = [numbers("axes", [-1]), numbers("e", 1e-5, "float32"), weight("g", 1)]
    _check(tmp_path / "m.onnx", nodes, "c", constants)
