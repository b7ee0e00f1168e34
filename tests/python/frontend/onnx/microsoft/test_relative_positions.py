# SPDX-License-Identifier: Apache-2.0
"""Biases by distance, for which ONNX Runtime has no kernels for CPUs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from support.contributed import Node, check_close, compiled, numbers
from tvm_ios.errors import ModelError


def bucket(distance: int, count: int, farthest: int, bidirectional: bool) -> int:
    """The bucket of a key so far behind a query, as T5 defines it."""
    first, size = 0, max(-distance, 0)
    if bidirectional:
        count //= 2
        first, size = (count if distance > 0 else 0), abs(distance)
    exact = count // 2
    if size < exact:
        return first + size
    share = math.log(size / exact) / math.log(farthest / exact)
    return first + min(exact + int(share * (count - exact)), count - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets(bidirectional: bool, tmp_path: Path) -> None:
    """The elements of the table are in the order of heads."""
    length, buckets, heads = 30, 12, 3
    table = numbers(buckets, heads)
    sizes = np.array(length)
    node = Node("RelativePositionBias", [table, sizes, sizes], (1, 2))
    result = compiled(tmp_path, node, max_distance=20, is_bidirectional=int(bidirectional))
    places = [
        [bucket(key - query, buckets, 20, bidirectional) for key in range(length)]
        for query in range(length)
    ]
    check_close(result, [table.reshape(heads, buckets)[:, places][np.newaxis]])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_gates(tmp_path: Path) -> None:
    batch, length, heads, depth, size = 2, 5, 3, 4, 6
    query, bias = numbers(batch, length, heads * depth), numbers(heads * depth)
    positions, weight = numbers(1, heads, length, length), numbers(depth, size)
    vector, factor = numbers(size), numbers(1, heads, 1, 1)
    node = Node("GatedRelativePositionBias", [query, bias, positions, weight, vector, factor])
    rows = (query + bias).reshape(batch, length, heads, depth).transpose(0, 2, 1, 3)
    halves = (rows @ weight + vector).reshape(batch, heads, length, 2, size // 2)
    outer, inner = np.split(sigmoid(halves.sum(-1)), 2, -1)
    wanted = (outer * (inner * factor - 1) + 2) * positions
    check_close(compiled(tmp_path, node, num_heads=heads), [wanted])


def test_other_keys_than_queries_are_refused(tmp_path: Path) -> None:
    node = Node("RelativePositionBias", [numbers(12, 3), np.array(5), np.array(6)], (1, 2))
    with pytest.raises(ModelError, match="has 5 queries and 6 keys; they must be as many"):
        compiled(tmp_path, node, max_distance=20)
