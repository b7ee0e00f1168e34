# SPDX-License-Identifier: Apache-2.0
"""Attention with a cache, whose queries share heads of keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from tvm import relax

from support.contributed import Node, by_onnx_runtime, check_close, compiled, numbers
from tvm_ios.errors import ModelError
from tvm_ios.frontend.dimensions import Given
from tvm_ios.frontend.onnx.file import from_file
from tvm_ios.relax_ir.expressions import op_name
from tvm_ios.rewrite.prepare import prepare

BATCH, DEPTH, PLACES = 2, 16, 20


class Step(NamedTuple):
    """New rows behind past ones; images have ``lengths`` rows then, of ``total`` at most.

    Attributes
    ----------
    rows, past : int
        No cache if ``past`` is None.
    total : int
    lengths : sequence of int
        All have ``total`` by default.
    known : bool
        Whether the lengths are constant.
    packed, rotated : bool
    bias, sink : array or None
    """

    rows: int = 5
    past: int | None = None
    total: int = 5
    lengths: Sequence[int] = ()
    known: bool = True
    packed: bool = False
    rotated: bool = False
    bias: np.ndarray | None = None
    sink: np.ndarray | None = None
    batch: int = BATCH
    heads: int = 4
    shared: int = 2
    dtype: str = "float32"

    def ends(self) -> list[int]:
        return list(self.lengths) or [self.total] * self.batch

    def node(self) -> Node:
        parts = [
            numbers(self.batch, self.rows, count * DEPTH, seed=i, dtype=self.dtype)
            for i, count in enumerate((self.heads, self.shared, self.shared))
        ]
        inputs = [np.concatenate(parts, -1), None, None] if self.packed else parts
        caches: list[np.ndarray | None] = [None, None]
        if self.past is not None:
            shape = (self.batch, self.shared, self.past, DEPTH)
            caches = [numbers(*shape, seed=i, dtype=self.dtype) for i in range(2)]
        tables: list[np.ndarray | None] = [None, None]
        if self.rotated:
            angles = 3 * numbers(PLACES, DEPTH // 2)
            tables = [table.astype(self.dtype) for table in (np.cos(angles), np.sin(angles))]
        last = np.array(self.ends(), "int32") - 1
        total = np.array(self.total, "int32")
        others = [last, total, *tables, None, self.bias, self.sink]
        constants = (5, 6) if self.known else (6,)
        names = ("y", "key", "value")
        return Node("GroupQueryAttention", [*inputs, *caches, *others], constants, names)

    def attributes(self) -> dict[str, int]:
        rotation = {"do_rotary": 1} if self.rotated else {}
        return {"num_heads": self.heads, "kv_num_heads": self.shared, **rotation}


ONE = Step(rows=1, past=7, total=8)
STEPS: dict[str, tuple[Step, dict[str, Any]]] = {
    "first, packed": (Step(packed=True, rotated=True), {"rotary_interleaved": 1, "scale": 0.3}),
    "first, padded": (Step(lengths=(3, 5), rotated=True), {}),
    "first, in a longer cache": (Step(past=12, lengths=(3, 5), known=False), {}),
    "one row, lengths differ": (ONE._replace(lengths=(4, 8), rotated=True), {}),
    "one row, unknown lengths": (
        ONE._replace(past=12, lengths=(4, 8), packed=True, rotated=True, known=False),
        {},
    ),
    "some rows": (Step(batch=1, rows=3, past=7, total=10, rotated=True), {}),
    "some rows, unknown length": (Step(batch=1, rows=3, past=7, total=10, known=False), {}),
    "window, bias of heads": (Step(bias=numbers(BATCH, 4, 5, 5)), {"local_window_size": 2}),
    "window, one row": (
        ONE._replace(lengths=(4, 8), known=False),
        {"local_window_size": 3},
    ),
    "bounded scores, shared bias": (Step(bias=numbers(1, 1, 5, 5)), {"softcap": 1.5}),
    "bias in a longer cache": (ONE._replace(past=12, bias=numbers(BATCH, 4, 1, 8)), {}),
    "smooth, heads of their own": (Step(shared=4), {"smooth_softmax": 1}),
    "sinks": (Step(sink=numbers(4)), {"softcap": 1.5, "local_window_size": 3}),
    "16 bits, one head for all": (
        ONE._replace(sink=numbers(4, dtype="float16"), shared=1, dtype="float16"),
        {},
    ),
}


def valid(step: Step, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return what is not padding; an attention's rows behind the end of an image are."""
    result, *caches = results
    if step.rows == step.total:
        result = np.concatenate([result[i, :end] for i, end in enumerate(step.ends())])
    return [result, *caches]


@pytest.mark.parametrize("name", STEPS)
def test_step(name: str, tmp_path: Path) -> None:
    step, others = STEPS[name]
    node, attributes = step.node(), {**step.attributes(), **others}
    wanted = by_onnx_runtime(node.model(**attributes), node.given())
    check_close(valid(step, compiled(tmp_path, node, **attributes)), valid(step, wanted))


def test_what_is_behind_the_end_of_a_cache_is_not_read(tmp_path: Path) -> None:
    step = ONE._replace(past=12, lengths=(4, 8), known=False)
    node = step.node()
    for cache in node.inputs[3:5]:
        cache[0, :, 3:] = cache[1, :, 7:] = np.nan
    results = compiled(tmp_path, node, **step.attributes())
    assert all(np.isfinite(result).all() for result in results)


@pytest.mark.parametrize(
    "step",
    [
        ONE._replace(lengths=(0, 4)),
        ONE._replace(lengths=(4, 9)),
        ONE._replace(lengths=(0, 4), known=False),
        ONE._replace(past=12, lengths=(4, 9), known=False),
    ],
)
def test_a_length_beyond_the_cache_is_an_error(step: Step, tmp_path: Path) -> None:
    error = ModelError if step.known else IndexError
    with pytest.raises(error, match=r"has its last rows at|must be from 0 to 7, got"):
        compiled(tmp_path, step.node(), **step.attributes())


INVALID: dict[str, tuple[Step, dict[str, Any]]] = {
    "4 heads of queries, which share 3": (Step(), {"kv_num_heads": 3}),
    "has a cache of integers": (Step(), {"kv_cache_bit_width": 8}),
    "has a cache that is shorter": (Step(), {"sliding_window_cache": 1}),
    "returns scores": (Step(), {"qk_output": 1}),
    "reads keys behind a query": (Step(), {"causal": 0}),
    "has no cosines and sines": (Step(), {"do_rotary": 1}),
    "8 rows after a step of 1, and 0 before it": (Step(rows=1, total=8), {}),
    "4 rows after a step of 5": (Step(total=4), {}),
    r"an attention bias of \[2, 4, 5, 7\]": (Step(bias=numbers(2, 4, 5, 7)), {}),
}


@pytest.mark.parametrize("problem", INVALID)
def test_what_cannot_be_is_refused(problem: str, tmp_path: Path) -> None:
    step, others = INVALID[problem]
    with pytest.raises(ModelError, match=problem):
        compiled(tmp_path, step.node(), **{**step.attributes(), **others})


def test_an_unknown_total_is_refused(tmp_path: Path) -> None:
    node = ONE.node()
    node = Node(node.kind, node.inputs, (5,), node.outputs)
    with pytest.raises(ModelError, match="computes its total_sequence_length from the input 'x6'"):
        compiled(tmp_path, node, **ONE.attributes())


def test_the_kernel_of_attention_computes_it(tmp_path: Path) -> None:
    step = Step(known=False)
    onnx.save(step.node().model(**step.attributes()), tmp_path / "m.onnx")
    func = prepare(from_file(tmp_path / "m.onnx", Given()), attention_depth=512)["main"]
    names: list[str] = []
    relax.analysis.post_order_visit(func, lambda expr: names.append(op_name(expr)))
    assert "nn.attention_bias" in names
    assert "nn.softmax" not in names
