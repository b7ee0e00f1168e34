# SPDX-License-Identifier: Apache-2.0
"""Conversion of convolutions to the layout that the kernels use."""

from __future__ import annotations

import logging
from typing import Any

import tvm
from tvm import relax

from ..relax_ir.expressions import is_op
from ..relax_ir.functions import bindings_of

_logger = logging.getLogger(__name__)

_WANTED = {"relax.nn.conv2d": ["NCHW", "OIHW"]}
_LOWERED = {"NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC"}
_OF_POOLS = ("max_pool", "avg_pool")  # their axes may have any order
_OF_ROWS = ("nn.layer_norm", "nn.rms_norm")


def channels_first(function: str) -> tvm.transform.Pass:
    """Return a pass that converts images to NCHW if ``function`` has a convolution in NHWC.

    Operators between convolutions are converted, too. Where that is impossible, and at the
    function's inputs and outputs, images are transposed. If TVM cannot convert the function, or
    could not lower the result, the function is left unchanged and its convolutions are slow.
    """

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.channels_first")
    def apply(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        values = bindings_of(mod[function]).values()
        if not any(is_op(v, "nn.conv2d") and v.attrs.data_layout == "NHWC" for v in values):
            return mod
        try:
            converted = relax.transform.ConvertLayout(_WANTED)(mod)
        except Exception as error:  # TVM raises various errors for operators between convolutions
            _logger.info("images keep their layout: %s", error)
            return mod
        if all(map(_is_lowered, bindings_of(converted[function]).values())):
            return converted
        _logger.info("images keep their layout: an operator between convolutions prevents another")
        return mod

    return apply


def _is_lowered(value: relax.Expr) -> bool:
    """Return whether TVM lowers an operator correctly in the given layout."""
    attrs: Any = getattr(value, "attrs", None)
    if any(is_op(value, name) for name in _OF_ROWS):
        # TVM keeps the order of their weights' axes but assumes that it is increasing.
        axes = [int(axis) % value.args[0].ty.ndim for axis in attrs.axes]
        return axes == sorted(axes)
    layout = getattr(attrs, "data_layout", None) or getattr(attrs, "layout", None)
    if layout is None or any(name in value.op.name for name in _OF_POOLS):
        return True
    if value.op.name.endswith("_transpose"):
        return layout[1] == "C"
    return layout in _LOWERED
