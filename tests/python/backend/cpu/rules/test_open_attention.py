# SPDX-License-Identifier: Apache-2.0
"""Attention of open sizes, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from onnx import NodeProto, helper

from support.open_networks import Dim, assert_any_shape, numbers, save, weight

node = helper.make_node

SIZES = [
    {"b": b, "s": s, "t": t}
    for b, s, t in (
        (1, 1, 1), (2, 3, 5), (1, 7, 16), (3, 2, 17), (1, 15, 31), (1, 16, 100), (2, 17, 513),
        (1, 31, 7), (1, 33, 600), (5, 32, 1), (1, 130, 129), (1, 65, 1030),
    )
]  # fmt: skip


def _in_heads(name: str, order: list[int]) -> list[NodeProto]:
    return [
        node("Reshape", [name, "split"], [f"{name}_split"]),
        node("Transpose", [f"{name}_split"], [f"{name}_heads"], perm=order),
    ]


def _attention(path: Path, heads: int, depth: int, mask: Sequence[Dim] | None) -> Path:
    """Write an attention as exporters do."""
    width = heads * depth
    nodes = [
        *_in_heads("q", [0, 2, 1, 3]),
        *_in_heads("k", [0, 2, 3, 1]),
        *_in_heads("v", [0, 2, 1, 3]),
        node("MatMul", ["q_heads", "k_heads"], ["product"]),
        node("Mul", ["product", "scale"], ["scores" if mask else "biased"]),
        *([node("Add", ["scores", "m"], ["biased"])] if mask else []),
        node("Softmax", ["biased"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v_heads"], ["mixed"]),
        node("Transpose", ["mixed"], ["ordered"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ordered", "whole"], ["joined"]),
        node("Add", ["joined", "bias"], ["y"]),
    ]
    inputs: dict[str, Sequence[Dim]] = {"q": ["b", "s", width]}
    inputs |= {name: ["b", "t", width] for name in ("k", "v")}
    inputs |= {"m": mask} if mask else {}
    constants = [
        numbers("split", [0, 0, heads, depth]), numbers("whole", [0, 0, width]),
        numbers("scale", depth**-0.5, "float32"), weight("bias", width),
    ]  # fmt: skip
    return save(path, nodes, inputs, ["y"], constants)


def _given(shape: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("heads", "depth", "mask"),
    [
        (4, 16, None),
        (2, 20, None),
        (3, 64, None),
        (1, 8, None),
        (1, 300, None),
        (4, 16, ["b", 1, 1, "t"]),
        (4, 16, [1, 1, 1, "t"]),
        (4, 16, ["b", 4, 1, "t"]),
        (4, 16, ["b", 1, "s", "t"]),
    ],
)
def test_attention(
    tmp_path: Path, heads: int, depth: int, mask: Sequence[Dim] | None, threads: int
) -> None:
    path = _attention(tmp_path / "m.onnx", heads, depth, mask)
    width = heads * depth
    shapes: list[Sequence[Dim]] = [["b", "s", width], *[["b", "t", width]] * 2]
    shapes += [mask] if mask else []
    calls = [[_given(shape, sizes) for shape in shapes] for sizes in SIZES]
    assert_any_shape(path, calls, threads=threads)
