# SPDX-License-Identifier: Apache-2.0
"""What an expression calls, and the shape that it has."""

from __future__ import annotations

from typing import TypeGuard

import tvm
from tvm import relax

from ..sizes.size import AnyShape, OpenSizes, is_known, owner_of, size_of
from ..support.errors import ModelError


def is_op(expr: relax.Expr | None, name: str) -> TypeGuard[relax.Call]:
    """Return whether ``expr`` is a call of the operator ``relax.<name>``."""
    return (
        isinstance(expr, relax.Call)
        and isinstance(expr.op, tvm.ir.Op)
        and expr.op.name == f"relax.{name}"
    )


def op_name(expr: relax.Expr) -> str:
    """Return the name of the called operator, such as ``nn.conv2d``; empty if there is none."""
    if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
        return expr.op.name.removeprefix("relax.")
    return ""


def is_static(expr: relax.Expr) -> bool:
    """Return whether ``expr`` is a tensor whose extents are all known."""
    shape = getattr(expr.ty, "shape", None)
    return shape is not None and all(isinstance(extent, tvm.tirx.IntImm) for extent in shape)


def static_shape(expr: relax.Expr, what: str) -> AnyShape:
    """Return the shape of a tensor, which may have sizes of :class:`.OpenSizes`.

    Raises
    ------
    ModelError
        If a dimension is not known at compile time; the message names the first one.
    """
    shape = expr.ty.shape
    if not isinstance(shape, relax.ShapeExpr):
        raise ModelError(
            f"{what} has no known shape; give the inputs' shapes with --input-shapes, "
            "or bind them before scheduling."
        )
    for axis, size in enumerate(shape.values):
        if not is_known(size):
            raise ModelError(
                f"Dimension {axis} of {what} is dynamic ({size}); fix it with "
                f'--input-shapes "NAME:[...]" or relax.transform.BindSymbolicVars.'
            )
    return tuple(map(size_of, shape.values))


def known_shape(expr: relax.Expr) -> AnyShape | None:
    """Return the shape of a tensor; None for any other expression."""
    if not isinstance(expr.ty, relax.TensorType) or not isinstance(expr.ty.shape, relax.ShapeExpr):
        return None
    sizes = expr.ty.shape.values
    return tuple(map(size_of, sizes)) if all(map(is_known, sizes)) else None


def held_shape(expr: relax.Expr) -> AnyShape:
    """Return the shape of a tensor that is known to have one."""
    shape = known_shape(expr)
    assert shape is not None, "its shape is known"
    return shape


def opened_of(function: relax.Function) -> OpenSizes | None:
    """Return the open dimensions of a function's inputs; None if they have none."""
    tensors = (p.ty for p in function.params if isinstance(p.ty, relax.TensorType))
    return owner_of(size for ty in tensors for size in ty.shape.values)


def is_float32(expr: relax.Expr) -> bool:
    return isinstance(expr.ty, relax.TensorType) and str(expr.ty.dtype) == "float32"
