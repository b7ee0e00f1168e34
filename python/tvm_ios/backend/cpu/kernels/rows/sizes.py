# SPDX-License-Identifier: Apache-2.0
"""Sizes as numbers that a network computes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm.tirx.script import builder as T

from .....ops.tensor import TensorSpec
from .....sizes.size import AnyShape, AnySize, Size
from ..kernel import Kernel, Phase

Expr = Any


def sizes_kernel(sizes: AnyShape) -> Kernel:
    """Return the kernel that writes sizes, in 64 bits, as a list."""

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        (result,) = buffers
        with T.serial(begin, begin + extent):
            for i, size in enumerate(sizes):
                T.buffer_store(result, _long(size), [i])

    return Kernel(
        name="sizes",
        key=("sizes", sizes),
        inputs=(),
        outputs=(TensorSpec((len(sizes),), "int64"),),
        phases=(Phase(1, emit),),
        sizes=sizes,
    )


def _long(size: AnySize) -> Expr:
    """Return a size in 64 bits: what is computed from dimensions may not fit into 32."""
    if not isinstance(size, Size):
        return T.int64(size)
    short = dict(zip(size.owner.variables, size.owner.short, strict=True))

    def lengthened(variable: tvm.ir.Var) -> Expr:
        return T.Cast("int64", short[variable])

    return tvm_ffi.structural_map(size.expr, [(tvm.ir.Var, lengthened)])
