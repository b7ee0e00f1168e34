# SPDX-License-Identifier: Apache-2.0
"""The geometry of convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from ..ops.window import Window
from ..relax_ir.expressions import is_float32
from .no_rule import NoRule, shape_of


@dataclass(frozen=True)
class ConvGeometry:
    """A convolution's windows over rows and columns, and its groups."""

    rows: Window
    columns: Window
    groups: int


def convolution_windows(conv: relax.Call) -> ConvGeometry:
    """Return the geometry of a ``nn.conv2d`` in NCHW, of any type.

    Raises
    ------
    NoRule
        When it is in another layout.
    """
    attrs = conv.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
    if layouts not in (("NCHW", "OIHW", "NCHW"), ("NCHW", "OIHW", "")):
        raise NoRule
    source, kernel = shape_of(conv.args[0]), shape_of(conv.args[1])
    result = shape_of(conv)
    windows = [
        Window(
            size=source[axis],
            out=result[axis],
            kernel=kernel[axis],
            stride=int(attrs.strides[axis - 2]),
            dilation=int(attrs.dilation[axis - 2]),
            before=int(attrs.padding[axis - 2]),
        )
        for axis in (2, 3)
    ]
    return ConvGeometry(windows[0], windows[1], int(attrs.groups))


def conv_geometry(conv: relax.Call) -> ConvGeometry:
    """Return the geometry of a ``nn.conv2d`` in NCHW of float32.

    Raises
    ------
    NoRule
        When it is in another layout or type.
    """
    if not (is_float32(conv) and all(map(is_float32, conv.args))):
        raise NoRule
    return convolution_windows(conv)
