# SPDX-License-Identifier: Apache-2.0
"""Matrix products of open sizes, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from onnx import helper

from support.open_networks import Dim, assert_any_shape, numbers, save, weight

node = helper.make_node

ROWS = [(1, 1), (1, 2), (3, 1), (1, 4), (1, 5), (2, 3), (1, 7), (1, 8), (1, 13), (5, 5), (1, 100)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("depth", "columns"), [(48, 100), (7, 16), (300, 130), (33, 5), (4, 1)])
def test_weights(tmp_path: Path, depth: int, columns: int, threads: int) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Add", ["a", "b"], ["c"]),
        node("Relu", ["c"], ["d"]),
        node("Add", ["d", "r"], ["y"]),
    ]
    inputs: dict[str, list[Dim]] = {"x": ["n", "t", depth], "r": ["n", "t", columns]}
    weights = [weight("w", depth, columns), weight("b", columns)]
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y"], weights)
    calls = [[(n, t, depth), (n, t, columns)] for n, t in (*ROWS, (3, 111))]
    assert_any_shape(path, calls, threads=threads)


def test_weights_of_several_products(tmp_path: Path) -> None:
    """Products of one left side become one."""
    names = ("p", "q", "r")
    nodes = [node("MatMul", ["x", f"w{n}"], [f"a{n}"]) for n in names]
    nodes += [node("Add", [f"a{n}", f"b{n}"], [n]) for n in names]
    weights = [weight(f"w{n}", 24, 20 + i) for i, n in enumerate(names)]
    weights += [weight(f"b{n}", 20 + i) for i, n in enumerate(names)]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "t", 24]}, names, weights)
    assert_any_shape(path, [[(n, t, 24)] for n, t in ROWS])


SIZES = [
    {"b": 1, "h": 1, "m": 1, "k": 1, "n": 1},
    {"b": 2, "h": 3, "m": 4, "k": 5, "n": 6},
    {"b": 1, "h": 2, "m": 17, "k": 16, "n": 15},
    {"b": 1, "h": 1, "m": 33, "k": 7, "n": 70},
    {"b": 2, "h": 2, "m": 64, "k": 64, "n": 64},
    {"b": 3, "h": 2, "m": 7, "k": 100, "n": 33},
    {"b": 2, "h": 1, "m": 5, "k": 3, "n": 300},
    {"b": 1, "h": 1, "m": 1, "k": 64, "n": 129},
]


def _given(shape: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (["b", "h", "m", "k"], ["b", "h", "k", "n"]),
        (["b", 3, "m", 8], ["b", 3, 8, "n"]),
        (["b", 3, "m", "k"], ["b", 3, "k", 20]),
        ([1, 5, "m", "k"], ["b", 5, "k", "n"]),
        (["b", "m", "k"], ["k", "n"]),
        ([3, "k"], ["k", "n"]),
        (["b", "h", 9, 40], ["b", "h", 40, 24]),
    ],
)
def test_activations(tmp_path: Path, left: list[Dim], right: list[Dim], threads: int) -> None:
    nodes = [
        node("MatMul", ["x", "y"], ["a"]),
        node("Mul", ["a", "c"], ["d"]),
        node("Tanh", ["d"], ["z"]),
    ]
    constants = [numbers("c", 0.3, "float32")]
    path = save(tmp_path / "m.onnx", nodes, {"x": left, "y": right}, ["z"], constants)
    calls = [[_given(left, sizes), _given(right, sizes)] for sizes in SIZES]
    assert_any_shape(path, calls, threads=threads)
