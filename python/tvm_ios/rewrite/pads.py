# SPDX-License-Identifier: Apache-2.0
"""Pads before convolutions and pools, as a part of these."""

from __future__ import annotations

import math

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import is_op
from ..relax_ir.functions import bindings_of

_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
_OF_CONVOLUTIONS = (
    *("strides", "dilation", "groups"),
    *("data_layout", "kernel_layout", "out_layout", "out_dtype"),
)
_MAX_POOLS = ("max_pool1d", "max_pool2d", "max_pool3d")
_OF_POOLS = (
    *("pool_size", "strides", "dilation", "ceil_mode", "count_include_pad"),
    *("layout", "out_layout"),
)


def absorb_pads(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``conv(pad(x))`` to a convolution that pads, and the same for max pools.

    Kernels skip what lies outside of an image; a pad by itself is a pass over memory. Networks
    whose strides pad more on one side have many, since PyTorch's convolutions pad evenly.
    """
    return _Absorber(mod, func).visit_expr(func)


@mutator
class _Absorber(PyExprMutator):
    def __init__(self, mod: tvm.IRModule, func: relax.Function) -> None:
        super().__init__(mod)
        self._bound = bindings_of(func)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        for names, attributes, ignored in (
            (_CONVOLUTIONS, _OF_CONVOLUTIONS, 0.0),
            (_MAX_POOLS, _OF_POOLS, -math.inf),
        ):
            for name in names:
                pad = self._pad(call.args[0], ignored) if is_op(call, f"nn.{name}") else None
                padding = None if pad is None else _padding(call, pad)
                if pad is None or padding is None:
                    continue
                operands = map(self.visit_expr, [pad.args[0], *call.args[1:]])
                kept = {key: getattr(call.attrs, key) for key in attributes}
                return getattr(relax.op.nn, name)(*operands, padding=padding, **kept)
        return super().visit_call_(call)

    def _pad(self, data: relax.Expr, ignored: float) -> relax.Call | None:
        """Return the pad that makes ``data`` if it pads with what the reader ignores."""
        pad = self._bound.get(data) if isinstance(data, relax.Var) else None
        if not is_op(pad, "nn.pad") or pad.attrs.pad_mode != "constant":
            return None
        return pad if float(pad.attrs.pad_value) == ignored else None


def _padding(call: relax.Call, pad: relax.Call) -> list[int] | None:
    """Return the padding of both; None if other axes than those of the image are padded."""
    layout = getattr(call.attrs, "data_layout", None) or call.attrs.layout
    widths = [int(width) for width in pad.attrs.pad_width]
    pairs = dict(zip(layout, zip(widths[::2], widths[1::2], strict=True), strict=True))
    if min(widths) < 0 or any(pairs.pop("N") + pairs.pop("C")):
        return None
    own = [int(width) for width in call.attrs.padding]
    more = [pair[0] for pair in pairs.values()] + [pair[1] for pair in pairs.values()]
    return [a + b for a, b in zip(own, more, strict=True)]
