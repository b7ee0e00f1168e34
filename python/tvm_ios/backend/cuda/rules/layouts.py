# SPDX-License-Identifier: Apache-2.0
"""Which values lie in memory with their channels last."""

from __future__ import annotations

from collections.abc import Collection

from tvm import relax

from ....graph.operators import Operator, OperatorGraph

CHANNELS_LAST = "channels last"
"""``[N, H, W, C]`` of a value that Relax has as ``[N, C, H, W]``."""

_IMAGE = ("conv2d", "depthwise_conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")
_AXES = 4


def channels_last_values(graph: OperatorGraph) -> dict[relax.Var, str]:
    """The feature maps of a network.

    They are what convolutions and pools read and write, and what is computed from a feature map
    without losing its four axes.
    """
    found: dict[relax.Var, str] = {}
    for op in graph.operators:
        values: Collection[relax.Expr] = ()
        if _is_of_images(op):
            values = (op.call.args[0], *op.outputs)
        elif not op.alone and any(value in found for value in op.inputs):
            values = op.outputs
        found.update((v, CHANNELS_LAST) for v in values if _has_axes(v))
    return found


def _is_of_images(op: Operator) -> bool:
    if op.alone or op.kind not in _IMAGE:
        return False
    attrs = op.call.attrs
    return attrs.layout == "NCHW" if "pool" in op.kind else attrs.data_layout == "NCHW"


def _has_axes(value: relax.Expr) -> bool:
    tensor = isinstance(value, relax.Var) and isinstance(value.ty, relax.TensorType)
    return tensor and value.ty.ndim == _AXES
