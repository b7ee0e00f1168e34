# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations and data movement of open sizes, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from onnx import NodeProto, TensorProto, helper

from support.open_networks import Dim, assert_any_shape, numbers, save, weight

node = helper.make_node

SIZES = (1, 2, 3, 5, 16, 17, 35, 64)

GELU = [node("Div", ["s", "root"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["p"]),
        node("Mul", ["s", "p"], ["q"]), node("Mul", ["q", "half"], ["o"])]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("inputs", "calls"),
    [
        ({"x": ["n"], "y": ["n"]}, [[(n,), (n,)] for n in (*SIZES, 1023, 5000)]),
        ({"x": ["n", "t"], "y": ["t"]}, [[(n, t), (t,)] for n in (1, 3, 70) for t in SIZES]),
        ({"x": ["n", "t"], "y": ["n", 1]}, [[(n, t), (n, 1)] for n in (1, 3) for t in SIZES]),
        ({"x": ["n", "t", 7], "y": ["n", 1, 7]}, [[(n, t, 7), (n, 1, 7)] for n in (1, 3) for t in SIZES]),
        ({"x": ["n", 3, "t"], "y": [3, 1]}, [[(n, 3, t), (3, 1)] for n in (1, 3) for t in (*SIZES, 1500)]),
        (
            {"x": ["n", 2, "t", "u"], "y": ["n", 1, 1, "u"]},
            [[(n, 2, t, u), (n, 1, 1, u)] for n in (1, 2) for t in (1, 5) for u in (*SIZES, 600)],
        ),
    ],
)  # fmt: skip
def test_elementwise(
    tmp_path: Path,
    inputs: dict[str, Sequence[Dim]],
    calls: Sequence[Sequence[Sequence[int]]],
    threads: int,
) -> None:
    constants = [numbers(n, v, "float32") for n, v in (("root", 1.414), ("one", 1.0), ("half", 0.5))]
    path = save(tmp_path / "m.onnx", [node("Add", ["x", "y"], ["s"]), *GELU], inputs, ["o"], constants)
    assert_any_shape(path, calls, threads=threads)


@pytest.mark.parametrize(
    ("shape", "order", "calls"),
    [
        (["n", "t"], [1, 0], [(n, t) for n in SIZES for t in SIZES]),
        (["n", "t", 20], [0, 2, 1], [(n, t, 20) for n in (1, 3) for t in (*SIZES, 100)]),
        (["n", "t", 5], [0, 2, 1], [(n, t, 5) for n in (1, 3) for t in SIZES]),
        (["n", "t", "u", 8], [0, 2, 1, 3], [(n, t, u, 8) for n in (1, 3) for t in (1, 5) for u in SIZES]),
        (["n", 3, "h", "w"], [0, 2, 3, 1], [(n, 3, h, h + 1) for n in (1, 2) for h in SIZES]),
        (["n", "h", "w", 3], [0, 3, 1, 2], [(n, h, h + 1, 3) for n in (1, 2) for h in SIZES]),
        (["n", "t", "u"], [2, 0, 1], [(n, 3, u) for n in (2, 17) for u in SIZES]),
        (["n", "t", "u"], [2, 1, 0], [(n, 3, u) for n in (2, 17) for u in SIZES]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("threads", [1, 2])
def test_permutations(
    tmp_path: Path,
    shape: Sequence[Dim],
    order: Sequence[int],
    calls: Sequence[Sequence[int]],
    threads: int,
) -> None:
    nodes = [node("Transpose", ["x"], ["a"], perm=order), node("Mul", ["a", "f"], ["b"]), node("Add", ["b", "y"], ["o"])]  # fmt: skip
    inputs = {"x": shape, "y": [shape[axis] for axis in order]}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["o"], [numbers("f", 1.5, "float32")])
    both = [[call, tuple(call[axis] for axis in order)] for call in calls]
    assert_any_shape(path, both, threads=threads)


MOVES: dict[str, tuple[list[NodeProto], list[Dim], list, list[Sequence[int]]]] = {
    "heads": (
        [node("Reshape", ["x", "s"], ["r"]), node("Transpose", ["r"], ["o"], perm=[0, 2, 1, 3])],
        ["n", "t", 64], [numbers("s", [0, 0, 4, 16])], [(n, t, 64) for n in (1, 3) for t in SIZES],
    ),
    "first step": (
        [node("Slice", ["x", "b", "e", "a"], ["o"])],
        ["n", "t", 8], [numbers("b", [0]), numbers("e", [1]), numbers("a", [1])],
        [(n, t, 8) for n in (1, 3) for t in SIZES],
    ),
    "all but two steps": (
        [node("Slice", ["x", "b", "e", "a"], ["o"])],
        ["n", "t", 5], [numbers("b", [1]), numbers("e", [-1]), numbers("a", [1])],
        [(n, t, 5) for n in (1, 3) for t in SIZES if t > 2],
    ),
    "every other column": (
        [node("Slice", ["x", "b", "e", "a", "s"], ["o"])],
        ["n", "t", 32], [numbers("b", [1]), numbers("e", [32]), numbers("a", [2]), numbers("s", [2])],
        [(n, t, 32) for n in (1, 3) for t in SIZES],
    ),
    "halves": (
        [node("Split", ["x"], ["a", "b"], axis=2, num_outputs=2), node("Mul", ["a", "b"], ["o"])],
        ["n", "t", 24], [], [(n, t, 24) for n in (1, 3) for t in SIZES],
    ),
    "repeated rows": (
        [node("Shape", ["x"], ["s"], start=0, end=2), node("Expand", ["w", "s"], ["e"]),
         node("Add", ["x", "e"], ["o"])],
        ["n", 6], [weight("w", 1, 6)], [(n, 6) for n in SIZES],
    ),
    "numbers of a type": (
        [node("Cast", ["x"], ["i"], to=TensorProto.INT8), node("Cast", ["i"], ["f"], to=1),
         node("Mul", ["f", "x"], ["o"])],
        ["n", "t"], [], [(n, t) for n in (1, 3) for t in SIZES],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("threads", [1, 2])
def test_movement(tmp_path: Path, name: str, threads: int) -> None:
    nodes, shape, constants, calls = MOVES[name]
    path = save(tmp_path / "m.onnx", nodes, {"x": shape}, ["o"], constants)
    assert_any_shape(path, [[call] for call in calls], threads=threads)
