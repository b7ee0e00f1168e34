# SPDX-License-Identifier: Apache-2.0
"""Products of one matrix with several of known weights computed as one.

Attention's queries, keys and values are such. The weights lie side by side, and so do the biases;
each result is a tensor of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from ...graph.fold import constant_array
from ...graph.operators import Operator
from ...kernels.matmul import matmul_kernel, pack_side_by_side
from ..feeds import Feed, Feeder, NoRule, apply_conversions
from ..implement import Implementation, LoweredGraph
from ..rules.base import on_row_major, shape_of
from ..rules.dense import product_of
from .rule import Alike, Rule


def _key(_lowered: LoweredGraph, op: Operator) -> Hashable | None:
    if op.kind != "matmul":
        return None
    try:
        product = product_of(op)
    except NoRule:
        return None
    left, right = op.anchor.args
    vector = len(shape_of(right)) == 1  # its result has no columns
    constants = all(constant_array(argument) is not None for argument in op.arguments)
    columnwise = all(kind == "last" for kind in op.program.arguments)
    if vector or not (product.weights and constants and columnwise):
        return None
    return (left, replace(product, columns=0))


def _merge(lowered: LoweredGraph, operators: tuple[int, ...]) -> Implementation:
    ops = [lowered.graph.operators[i] for i in operators]
    products, core = [product_of(op) for op in ops], lowered.preferences.core
    columns = tuple(product.columns for product in products)
    merged = replace(products[0], columns=sum(columns), results=columns)
    arguments = [
        _side_by_side([op.arguments[a] for op in ops], 1, core.lanes).ravel()
        for a in range(len(merged.program.arguments))
    ]
    feeds = (
        Feeder(lowered.layouts).plain(ops[0].anchor.args[0]),
        Feed(_side_by_side([op.anchor.args[1] for op in ops], merged.depth, core.lanes)),
        *map(Feed, arguments),
    )
    outputs = tuple(op.outputs[0] for op in ops)
    kernel = on_row_major(matmul_kernel(merged, core), feeds, outputs)
    kernel = apply_conversions(kernel, feeds)
    return Implementation(operators, kernel, tuple(feed.value for feed in feeds), outputs)


def _side_by_side(constants: Sequence[relax.Expr], rows: int, lanes: int) -> np.ndarray:
    """Constants of ``rows`` rows packed for one kernel."""
    return pack_side_by_side([constant_array(c).reshape(rows, -1) for c in constants], lanes)


MERGE_DENSE = Rule("merge-dense", Alike(_key), _merge)
