# SPDX-License-Identifier: Apache-2.0
"""The ``merge`` strategy: convolutions that read the same tensor computed as one.

IOS (section 3) concatenates the kernels of such convolutions, the smaller ones padded with zeros
to the size of the largest, and splits the result. Here nothing is split: the merged kernel writes
each block of channels to the result that it belongs to.

A kernel may only be padded where that moves no tap: with ``p`` the padding in front and ``d`` the
dilation, kernel ``i`` sits at offset ``(max(p) - p_i) / d`` of the enlarged one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from ..graph.fold import constant_array
from ..graph.operators import Operator
from ..graph.recognise import static_shape
from ..kernels.conv2d import Conv2d, conv2d_kernel
from ..kernels.emit import Window
from ..kernels.layout import Layout
from .feeds import Feeder, NoRule, apply_conversions
from .implement import Implementation, LoweredGraph
from .rules.convolution import ConvGeometry, conv_geometry


def merge_classes(lowered: LoweredGraph) -> list[int]:
    """Per operator a number that operators which can be merged share; -1 for all others."""
    classes: dict[object, int] = {}
    result = []
    for op, implementation in zip(lowered.graph.operators, lowered.implementations, strict=True):
        key = _merge_key(lowered, op, implementation)
        result.append(-1 if key is None else classes.setdefault(key, len(classes)))
    sizes = [result.count(c) for c in range(len(classes))]
    return [c if c >= 0 and sizes[c] > 1 else -1 for c in result]


def merge(lowered: LoweredGraph, operators: Sequence[int]) -> Implementation:
    """One implementation for convolutions of one merge class."""
    ops = [lowered.graph.operators[i] for i in operators]
    geometry = _enlarge([conv_geometry(op.anchor) for op in ops])
    data = ops[0].anchor.args[0]
    feeder = Feeder(lowered.layouts)
    source, result = feeder.layout(data), Layout(lowered.preferences.core.lanes)
    batch, channels = static_shape(data, "a feature map")[:2]
    conv = Conv2d(
        batch=batch,
        channels=channels,
        rows=geometry.rows,
        columns=geometry.columns,
        out_channels=tuple(static_shape(op.anchor, "a result")[1] for op in ops),
        program=ops[0].program,
    )
    weights = [_enlarged_weights(op, geometry) for op in ops]
    pack = lambda w: feeder.weights(w, source.block or 1, lowered.preferences.core.lanes, 1).value  # noqa: E731
    arguments = [
        np.concatenate([_argument(feeder, op, a, result) for op in ops], axis=1)
        for a in range(len(ops[0].arguments))
    ]
    data_feed = feeder.feature_map(data, source)
    kernel = apply_conversions(
        conv2d_kernel(conv, source, result, lowered.preferences.core), (data_feed,)
    )
    packed = np.concatenate([pack(relax.const(w)) for w in weights])
    return Implementation(
        operators=tuple(operators),
        kernel=kernel,
        inputs=(data_feed.value, packed, *arguments),
        outputs=tuple(op.outputs[0] for op in ops),
    )


def _merge_key(
    lowered: LoweredGraph, op: Operator, implementation: Implementation | None
) -> object | None:
    """What operators must have in common to be merged; None for what cannot be."""
    if implementation is None or op.kind != "conv2d":
        return None
    try:
        geometry = conv_geometry(op.anchor)
    except NoRule:
        return None
    data, weights = op.anchor.args
    constants = all(constant_array(e) is not None for e in (weights, *op.arguments))
    channelwise = all(kind == "channel" for kind in op.program.arguments)
    blocked = all(lowered.layouts.get(v, Layout()).block for v in op.outputs)
    if geometry.groups != 1 or not (constants and channelwise and blocked):
        return None
    windows = tuple(
        (w.size, w.out, w.stride, w.dilation, w.before % w.dilation)
        for w in (geometry.rows, geometry.columns)
    )
    return (data, windows, op.program)


@dataclass(frozen=True)
class _Sizes:
    rows: Window
    columns: Window


def _enlarge(geometries: Sequence[ConvGeometry]) -> _Sizes:
    """The smallest windows that hold every kernel at its place."""
    return _Sizes(
        _enlarge_window([g.rows for g in geometries]),
        _enlarge_window([g.columns for g in geometries]),
    )


def _enlarge_window(windows: Sequence[Window]) -> Window:
    before = max(w.before for w in windows)
    kernel = max(_offset(w, before) + w.kernel for w in windows)
    return replace(windows[0], kernel=kernel, before=before)


def _offset(window: Window, before: int) -> int:
    """Where the window's first tap lies in a kernel with padding ``before``."""
    return (before - window.before) // window.dilation


def _enlarged_weights(op: Operator, sizes: _Sizes) -> np.ndarray:
    """The operator's weights in a kernel of the merged size, zero elsewhere."""
    weights = constant_array(op.anchor.args[1])
    geometry = conv_geometry(op.anchor)
    row = _offset(geometry.rows, sizes.rows.before)
    column = _offset(geometry.columns, sizes.columns.before)
    shape = (*weights.shape[:2], sizes.rows.kernel, sizes.columns.kernel)
    enlarged = np.zeros(shape, weights.dtype)
    height, width = weights.shape[2:]
    enlarged[:, :, row : row + height, column : column + width] = weights
    return enlarged


def _argument(feeder: Feeder, op: Operator, index: int, layout: Layout) -> np.ndarray:
    shape = static_shape(op.anchor, "a result")
    return feeder.argument(op.arguments[index], "channel", layout, shape).value
