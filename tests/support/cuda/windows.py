# SPDX-License-Identifier: Apache-2.0
"""Operators for CUDA that look at windows of an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax


def depthwise(**attributes: Any) -> Callable[..., relax.Expr]:
    """A depthwise convolution and a bias, channels last."""

    def body(emit: Any, x: relax.Var, weights: relax.Var, bias: relax.Var) -> relax.Expr:
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWOI", "groups": int(x.ty.shape[3])}
        y = emit(relax.op.nn.conv2d(x, weights, **layouts, **attributes))
        return emit(relax.op.add(y, bias))

    return body


def pool(kind: str, **attributes: Any) -> Callable[..., relax.Expr]:
    """A pooling of windows of 3 x 3, channels last."""
    operator = getattr(relax.op.nn, kind)
    return lambda emit, x: emit(operator(x, (3, 3), layout="NHWC", **attributes))


WINDOWS: dict[str, tuple[Any, ...]] = {
    "max": (pool("max_pool2d", strides=2, padding=1), (1, 9, 8, 12)),
    "mean": (pool("avg_pool2d", strides=1, padding=1), (2, 6, 8, 5)),
    "all": (
        lambda e, x: e(relax.op.nn.adaptive_avg_pool2d(x, (1, 1), layout="NHWC")),
        (1, 7, 7, 36),
    ),
    "depthwise": (depthwise(padding=1), (1, 8, 6, 24), (3, 3, 24, 1), (1, 1, 1, 24)),
    "strided": (depthwise(padding=2, strides=2), (1, 9, 7, 10), (5, 5, 10, 1), (1, 1, 1, 10)),
}
