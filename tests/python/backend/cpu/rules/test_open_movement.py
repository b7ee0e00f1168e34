# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations and data movement of open sizes, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from support.open_networks import Dim, assert_any_shape, numbers, save, weight

node = helper.make_node

SIZES = (1, 2, 3, 5, 16, 17, 35, 64)

GELU = [
    node("Div", ["s", "root"], ["d"]),
    node("Erf", ["d"], ["e"]),
    node("Add", ["e", "one"], ["p"]),
    node("Mul", ["s", "p"], ["q"]),
    node("Mul", ["q", "half"], ["o"]),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("inputs", "calls"),
    [
        ({"x": ["n"], "y": ["n"]}, [[(n,), (n,)] for n in (*SIZES, 1023, 5000)]),
        ({"x": ["n", "t"], "y": ["t"]}, [[(n, t), (t,)] for n in (1, 3, 70) for t in SIZES]),
        ({"x": ["n", "t"], "y": ["n", 1]}, [[(n, t), (n, 1)] for n in (1, 3) for t in SIZES]),
        (
            {"x": ["n", "t", 7], "y": ["n", 1, 7]},
            [[(n, t, 7), (n, 1, 7)] for n in (1, 3) for t in SIZES],
        ),
        (
            {"x": ["n", 3, "t"], "y": [3, 1]},
            [[(n, 3, t), (3, 1)] for n in (1, 3) for t in (*SIZES, 1500)],
        ),
        (
            {"x": ["n", 2, "t", "u"], "y": ["n", 1, 1, "u"]},
            [[(n, 2, t, u), (n, 1, 1, u)] for n in (1, 2) for t in (1, 5) for u in (*SIZES, 600)],
        ),
    ],
)
def test_elementwise(
    tmp_path: Path,
    inputs: dict[str, Sequence[Dim]],
    calls: Sequence[Sequence[Sequence[int]]],
    threads: int,
) -> None:
    constants = [
        numbers(n, v, "float32") for n, v in (("root", 1.414), ("one", 1.0), ("half", 0.5))
    ]
    path = save(
        tmp_path / "m.onnx", [node("Add", ["x", "y"], ["s"]), *GELU], inputs, ["o"], constants
    )
    assert_any_shape(path, calls, threads=threads)


@pytest.mark.parametrize(
    ("shape", "order", "calls"),
    [
        (["n", "t"], [1, 0], [(n, t) for n in SIZES for t in SIZES]),
        (["n", "t", 20], [0, 2, 1], [(n, t, 20) for n in (1, 3) for t in (*SIZES, 100)]),
        (["n", "t", 5], [0, 2, 1], [(n, t, 5) for n in (1, 3) for t in SIZES]),
        (
            ["n", "t", "u", 8],
            [0, 2, 1, 3],
            [(n, t, u, 8) for n in (1, 3) for t in (1, 5) for u in SIZES],
        ),
        (["n", 3, "h", "w"], [0, 2, 3, 1], [(n, 3, h, h + 1) for n in (1, 2) for h in SIZES]),
        (["n", "h", "w", 3], [0, 3, 1, 2], [(n, h, h + 1, 3) for n in (1, 2) for h in SIZES]),
        (["n", "t", "u"], [2, 0, 1], [(n, 3, u) for n in (2, 17) for u in SIZES]),
        (["n", "t", "u"], [2, 1, 0], [(n, 3, u) for n in (2, 17) for u in SIZES]),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_permutations(
    tmp_path: Path,
    shape: Sequence[Dim],
    order: Sequence[int],
    calls: Sequence[Sequence[int]],
    threads: int,
) -> None:
    nodes = [
        node("Transpose", ["x"], ["a"], perm=order),
        node("Mul", ["a", "f"], ["b"]),
        node("Add", ["b", "y"], ["o"]),
    ]
    inputs = {"x": shape, "y": [shape[axis] for axis in order]}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["o"], [numbers("f", 1.5, "float32")])
    both = [[call, tuple(call[axis] for axis in order)] for call in calls]
    assert_any_shape(path, both, threads=threads)


MOVES: dict[str, tuple[list[NodeProto], list[Dim], list, list[Sequence[int]]]] = {
    "heads": (
        [node("Reshape", ["x", "s"], ["r"]), node("Transpose", ["r"], ["o"], perm=[0, 2, 1, 3])],
        ["n", "t", 64],
        [numbers("s", [0, 0, 4, 16])],
        [(n, t, 64) for n in (1, 3) for t in SIZES],
    ),
    "first step": (
        [node("Slice", ["x", "b", "e", "a"], ["o"])],
        ["n", "t", 8],
        [numbers("b", [0]), numbers("e", [1]), numbers("a", [1])],
        [(n, t, 8) for n in (1, 3) for t in SIZES],
    ),
    "all but two steps": (
        [node("Slice", ["x", "b", "e", "a"], ["o"])],
        ["n", "t", 5],
        [numbers("b", [1]), numbers("e", [-1]), numbers("a", [1])],
        [(n, t, 5) for n in (1, 3) for t in SIZES if t > 2],
    ),
    "every other column": (
        [node("Slice", ["x", "b", "e", "a", "s"], ["o"])],
        ["n", "t", 32],
        [numbers("b", [1]), numbers("e", [32]), numbers("a", [2]), numbers("s", [2])],
        [(n, t, 32) for n in (1, 3) for t in SIZES],
    ),
    "halves": (
        [node("Split", ["x"], ["a", "b"], axis=2, num_outputs=2), node("Mul", ["a", "b"], ["o"])],
        ["n", "t", 24],
        [],
        [(n, t, 24) for n in (1, 3) for t in SIZES],
    ),
    "repeated rows": (
        [
            node("Shape", ["x"], ["s"], start=0, end=2),
            node("Expand", ["w", "s"], ["e"]),
            node("Add", ["x", "e"], ["o"]),
        ],
        ["n", 6],
        [weight("w", 1, 6)],
        [(n, 6) for n in SIZES],
    ),
    "the last step": (
        [node("Gather", ["x", "i"], ["o"], axis=1)],
        ["n", "t", 8],
        [numbers("i", -1)],
        [(n, t, 8) for n in (1, 3) for t in SIZES],
    ),
    "a list of the last step": (
        [node("Gather", ["x", "i"], ["a"], axis=1), node("Relu", ["a"], ["o"])],
        ["n", "t", 8],
        [numbers("i", [-1])],
        [(n, t, 8) for n in (1, 3) for t in SIZES],
    ),
    "the second of two": (
        [node("Gather", ["x", "i"], ["o"], axis=1)],
        ["n", 2, "t"],
        [numbers("i", 1)],
        [(n, 2, t) for n in (1, 3) for t in SIZES],
    ),
    "several steps": (
        [node("Gather", ["x", "i"], ["o"], axis=1)],
        ["n", "t", 8],
        [numbers("i", [0, -1, 0])],
        [(n, t, 8) for n in (1, 3) for t in SIZES],
    ),
    "a view": (
        [
            node("Relu", ["x"], ["a"]),
            node("Reshape", ["a", "s"], ["b"]),
            node("Softmax", ["b"], ["o"]),
        ],
        ["n", 4, "t"],
        [numbers("s", [0, -1])],
        [(n, 4, t) for n in (1, 3) for t in SIZES],
    ),
    "numbers of elements": (
        [
            node("Shape", ["x"], ["s"]),
            node("Size", ["x"], ["q"]),
            node("Cast", ["q"], ["f"], to=1),
            node("Sqrt", ["f"], ["r"]),
            node("Mul", ["x", "r"], ["p"]),
            node("Cast", ["s"], ["g"], to=1),
            node("ReduceSum", ["g"], ["h"], keepdims=0),
            node("Add", ["p", "h"], ["o"]),
        ],
        ["n", "t", 8],
        [],
        [(n, t, 8) for n in (1, 3) for t in SIZES],
    ),
    "positions": (
        [
            node("Shape", ["x"], ["s"], start=1, end=2),
            node("Squeeze", ["s"], ["e"]),
            node("Range", ["zero", "e", "one"], ["r"]),
            node("Cast", ["r"], ["f"], to=1),
            node("Add", ["x", "f"], ["o"]),
        ],
        ["n", "t"],
        [numbers("zero", 0), numbers("one", 1)],
        [(n, t) for n in (1, 3) for t in SIZES],
    ),
    "a sum of everything": (
        [node("ReduceSum", ["x"], ["o"], keepdims=0)],
        ["n", "t"],
        [],
        [(n, t) for n in (1, 3) for t in SIZES],
    ),
    "numbers of a type": (
        [
            node("Cast", ["x"], ["i"], to=TensorProto.INT8),
            node("Cast", ["i"], ["f"], to=1),
            node("Mul", ["f", "x"], ["o"]),
        ],
        ["n", "t"],
        [],
        [(n, t) for n in (1, 3) for t in SIZES],
    ),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("threads", [1, 2])
def test_movement(tmp_path: Path, name: str, threads: int) -> None:
    nodes, shape, constants, calls = MOVES[name]
    path = save(tmp_path / "m.onnx", nodes, {"x": shape}, ["o"], constants)
    assert_any_shape(path, [[call] for call in calls], threads=threads)


CONCATENATIONS: dict[str, tuple[dict[str, list[Dim]], int, list, list[list[Sequence[int]]]]] = {
    "steps": (
        {"x": ["n", "t", 8], "y": ["n", "u", 8]},
        1,
        [],
        [[(n, t, 8), (n, u, 8)] for n in (1, 3) for t in SIZES for u in (1, 7)],
    ),
    "steps and a constant": (
        {"x": [2, "t", 8], "y": [2, "u", 8]},
        1,
        [weight("w", 2, 1, 8)],
        [[(2, t, 8), (2, u, 8)] for t in SIZES for u in (1, 7)],
    ),
    "columns": (
        {"x": ["n", "t"], "y": ["n", "u"]},
        -1,
        [],
        [[(n, t), (n, u)] for n in (1, 3, 20) for t in SIZES for u in (1, 700)],
    ),
    "rows": (
        {"x": ["n", "t"], "y": ["u", "t"]},
        0,
        [],
        [[(n, t), (u, t)] for n in (1, 3) for t in SIZES for u in (1, 7)],
    ),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, TensorProto.FLOAT) for name in CONCATENATIONS),
        *((name, TensorProto.INT64) for name, its in CONCATENATIONS.items() if not its[2]),
    ],
)
def test_concatenations(tmp_path: Path, name: str, kind: int) -> None:
    inputs, axis, constants, calls = CONCATENATIONS[name]
    parts = [*inputs, *(c.name for c in constants)]
    nodes = [node("Concat", parts, ["o"], axis=axis)]
    dtypes = dict.fromkeys(inputs, kind)
    assert_any_shape(
        save(tmp_path / "m.onnx", nodes, inputs, ["o"], constants, dtypes=dtypes), calls
    )


CHANNELS: dict[str, list[NodeProto]] = {
    "concatenated in place": [
        node("Conv", ["c", "w32"], ["a"]),
        node("Conv", ["c", "w32"], ["b"], pads=[0, 0, 0, 0]),
        node("Relu", ["a"], ["d"]),
        node("Concat", ["d", "b"], ["e"], axis=1),
        node("Conv", ["e", "w64"], ["o"]),
    ],
    "concatenated": [
        node("Conv", ["c", "w24"], ["a"]),
        node("Conv", ["c", "w40"], ["b"]),
        node("Concat", ["a", "b"], ["e"], axis=1),
        node("Conv", ["e", "w64"], ["o"]),
    ],
    "excited": [
        node("GlobalAveragePool", ["c"], ["g"]),
        node("Conv", ["g", "w32"], ["a"]),
        node("Sigmoid", ["a"], ["b"]),
        node("Mul", ["c", "b"], ["d"]),
        node("Relu", ["d"], ["e"]),
        node("Conv", ["e", "w32"], ["o"]),
    ],
    "a slice": [
        node("Slice", ["c", "four", "thirty six", "one"], ["e"]),
        node("Conv", ["e", "w32"], ["o"]),
    ],
    "every other row": [
        node("Slice", ["c", "zeros", "ends", "rows", "twos"], ["e"]),
        node("Conv", ["e", "w32"], ["o"]),
    ],
    "channels last": [
        node("Transpose", ["c"], ["a"], perm=[0, 2, 3, 1]),
        node("Softmax", ["a"], ["b"], axis=-1),
        node("Transpose", ["b"], ["e"], perm=[0, 3, 1, 2]),
        node("Conv", ["e", "w32"], ["o"]),
    ],
}


@pytest.mark.parametrize("name", CHANNELS)
def test_channels(tmp_path: Path, name: str) -> None:
    constants = [
        weight("w", 32 if name not in ("a slice",) else 40, 3, 3, 3),
        weight("w32", 32, 32, 1, 1),
        weight("w24", 24, 32, 1, 1),
        weight("w40", 40, 32, 1, 1),
        weight("w64", 8, 64, 1, 1),
        numbers("four", [4]),
        numbers("thirty six", [36]),
        numbers("one", [1]),
        numbers("zeros", [0, 0]),
        numbers("ends", [1000, 1000]),
        numbers("rows", [2, 3]),
        numbers("twos", [2, 2]),
    ]
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), *CHANNELS[name]]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", 3, "h", "w"]}, ["o"], constants)
    assert_any_shape(path, [[(n, 3, h, 2 * h + 1)] for n in (1, 2) for h in (1, 2, 7, 16, 33)])


def test_indices_are_checked(tmp_path: Path) -> None:
    nodes = [node("Gather", ["x", "i"], ["o"], axis=1)]
    inputs = {"x": ["n", "t"], "i": ["u"]}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["o"], dtypes={"i": TensorProto.INT64})
    model = assert_any_shape(path, [[(2, 5), (3,)], [(1, 70), (40,)]])
    x = np.arange(14, dtype="float32").reshape(2, 7)
    np.testing.assert_array_equal(model(x, np.array([6, -7, -1])), x[:, [6, -7, -1]])
    for wrong in (7, -8):
        with pytest.raises(IndexError, match=f"must be from -7 to 6, got {wrong}"):
            model(x, np.array([0, wrong]))
