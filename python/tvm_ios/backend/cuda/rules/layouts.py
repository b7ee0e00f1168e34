# SPDX-License-Identifier: Apache-2.0
"""Layouts: which values have their channels last in memory."""

from __future__ import annotations

from collections.abc import Collection

from tvm import relax

from ....graph.operators import Operator, OperatorGraph

CHANNELS_LAST = "channels last"
"""The layout ``[N, H, W, C]`` of a value that is ``[N, C, H, W]`` in Relax."""

_IMAGE = ("conv2d", "depthwise_conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")
_AXES = 4


def channels_last_values(graph: OperatorGraph) -> dict[relax.Var, str]:
    """Return the layouts of a network's feature maps.

    Feature maps are the values that convolutions and poolings read and write, and the results of
    other operators on feature maps that keep the four axes.
    """
    found: dict[relax.Var, str] = {}
    for op in graph.operators:
        values: Collection[relax.Expr] = ()
        if _is_of_images(op):
            values = (op.call.args[0], *op.outputs)
        elif not op.opaque and any(value in found for value in op.inputs):
            values = op.outputs
        found.update((v, CHANNELS_LAST) for v in values if _has_axes(v))
    return found


def _is_of_images(op: Operator) -> bool:
    if op.opaque or op.kind not in _IMAGE:
        return False
    attrs = op.call.attrs
    return attrs.layout == "NCHW" if "pool" in op.kind else attrs.data_layout == "NCHW"


def _has_axes(value: relax.Expr) -> bool:
    tensor = isinstance(value, relax.Var) and isinstance(value.ty, relax.TensorType)
    return tensor and value.ty.ndim == _AXES
