# SPDX-License-Identifier: Apache-2.0
"""Convolutions brought to the layout that the kernels are written for."""

from __future__ import annotations

import tvm
from tvm import relax

from .fold import bindings_of, is_op

_WANTED = {"relax.nn.conv2d": ["NCHW", "OIHW"]}


def channels_first(function: str) -> tvm.transform.Pass:
    """A pass that lays out images as NCHW where ``function`` has a convolution of NHWC.

    What lies between convolutions goes along; where it cannot, and at the function's ends, images
    are transposed.
    """

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.channels_first")
    def apply(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        values = bindings_of(mod[function]).values()
        if any(is_op(v, "nn.conv2d") and v.attrs.data_layout == "NHWC" for v in values):
            return relax.transform.ConvertLayout(_WANTED)(mod)
        return mod

    return apply
