# SPDX-License-Identifier: Apache-2.0
"""Convolutions brought to the layout that the kernels are written for."""

from __future__ import annotations

import logging
from typing import Any

import tvm
from tvm import relax

from .fold import bindings_of, is_op

_logger = logging.getLogger(__name__)

_WANTED = {"relax.nn.conv2d": ["NCHW", "OIHW"]}
_LOWERED = {"NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC"}
_OF_POOLS = ("max_pool", "avg_pool")  # whose axes may have any order
_OF_ROWS = ("nn.layer_norm", "nn.rms_norm")


def channels_first(function: str) -> tvm.transform.Pass:
    """A pass that lays out images as NCHW where ``function`` has a convolution of NHWC.

    What lies between convolutions goes along; where it cannot, and at the function's ends, images
    are transposed. Where TVM cannot lay the function out so, or could not lower what comes of it,
    it stays as it is: its convolutions are slow then.
    """

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.channels_first")
    def apply(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        values = bindings_of(mod[function]).values()
        if not any(is_op(v, "nn.conv2d") and v.attrs.data_layout == "NHWC" for v in values):
            return mod
        try:
            converted = relax.transform.ConvertLayout(_WANTED)(mod)
        except Exception as error:  # whatever TVM trips over between the convolutions
            _logger.info("images stay as they are: %s", error)
            return mod
        if all(map(_is_lowered, bindings_of(converted[function]).values())):
            return converted
        _logger.info("images stay as they are: what lies between convolutions cannot go along")
        return mod

    return apply


def _is_lowered(value: relax.Expr) -> bool:
    """Whether TVM lowers an operator, and rightly, in the layout that it was given."""
    attrs: Any = getattr(value, "attrs", None)
    if any(is_op(value, name) for name in _OF_ROWS):
        # Their weights keep the order that their axes had: TVM takes it to be the rising one.
        axes = [int(axis) % value.args[0].ty.ndim for axis in attrs.axes]
        return axes == sorted(axes)
    layout = getattr(attrs, "data_layout", None) or getattr(attrs, "layout", None)
    if layout is None or any(name in value.op.name for name in _OF_POOLS):
        return True
    if value.op.name.endswith("_transpose"):
        return layout[1] == "C"
    return layout in _LOWERED
