# SPDX-License-Identifier: Apache-2.0
"""Properties of Relax operators for the extractor: kinds, elementwise steps, sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tvm
from tvm import relax

from ..ops import deformed, dynamic_grid, index_check, recurrence_function, regions
from ..ops.epilogue import Broadcast
from ..relax_ir.constants import number_of, scalar_constant
from ..relax_ir.expressions import is_float32, is_op, known_shape, op_name, static_shape
from ..sizes.size import AnySize, hint_of

CONDITIONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
"""Elementwise operators whose results are conditions, which :func:`elementwise` counts as steps."""

ELEMENTWISE = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "power": "power",
    "maximum": "maximum",
    "minimum": "minimum",
    **{name: name for name in CONDITIONS},
    "where": "where",
    "nn.relu": "relu",
    "nn.relu6": "relu6",
    "nn.leakyrelu": "leaky_relu",
    "clip": "clip",
    "negative": "negative",
    "abs": "abs",
    "sign": "sign",
    "round": "round",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "square": "square",
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "sigmoid": "sigmoid",
    "nn.silu": "silu",
    "erf": "erf",
    "nn.gelu": "gelu",
    "nn.gelu_tanh": "gelu_tanh",
}
"""The step of an epilogue that each of Relax's elementwise operators is."""

# Operators of any number of axes that treat the last one specially.
_ROW_MAJOR = frozenset(
    {
        "matmul",
        "nn.softmax",
        "nn.layer_norm",
        "nn.rms_norm",
        "nn.attention",
        "nn.attention_bias",
    }
)


@dataclass(frozen=True)
class ElementwiseCall:
    """An elementwise operation: the step's name, its tensor operands and its constants."""

    step: str
    operands: tuple[relax.Expr, ...]
    constants: tuple[float, ...] = ()

    @property
    def of_numbers(self) -> bool:
        """Whether all operands are of float32."""
        return all(map(is_float32, self.operands))


def elementwise(expr: relax.Expr) -> ElementwiseCall | None:
    """Return ``expr`` as an elementwise step on float32; None for any other expression.

    Conditions are steps, too, and what ``where`` depends on is one.
    """
    name = op_name(expr)
    if name not in ELEMENTWISE or not (is_float32(expr) or name in CONDITIONS):
        return None
    if name == "power" and scalar_constant(expr.args[1]) == 2:
        return ElementwiseCall("square", (expr.args[0],))
    if name == "clip":
        bounds = [number_of(argument) for argument in expr.args[1:3]]
        numbers = tuple(bound for bound in bounds if bound is not None)
        if len(numbers) != len(bounds):
            return None
        return ElementwiseCall("clip", (expr.args[0],), numbers)
    constants = (float(expr.attrs.alpha),) if name == "nn.leakyrelu" else ()
    return ElementwiseCall(ELEMENTWISE[name], tuple(expr.args), constants)


def kind_of(expr: relax.Expr) -> str:
    """Return the kind of an anchor, as schedules show it."""
    if checks_indices(expr):
        return "check_indices"
    if is_recurrence(expr):
        return "recurrence"
    for own in (regions.FUNCTION, deformed.FUNCTION, dynamic_grid.FUNCTION):
        if _calls(expr, own):
            return own
    name = op_name(expr).removeprefix("nn.")
    if name == "conv2d" and _is_depthwise(expr):
        return "depthwise_conv2d"
    if not name:
        return "call" if isinstance(expr, relax.Call) else type(expr).__name__.lower()
    return name


def checks_indices(expr: relax.Expr) -> bool:
    """Return whether ``expr`` is a call of a function that checks indices."""
    return is_op(expr, "call_tir") and expr.args[0].name_hint.startswith(index_check.FUNCTION)


def is_dynamic_grid(expr: relax.Expr) -> bool:
    """Return whether ``expr`` is a call that :mod:`~tvm_ios.ops.dynamic_grid` emits."""
    return _calls(expr, dynamic_grid.FUNCTION)


def is_recurrence(expr: relax.Expr) -> bool:
    """Return whether ``expr`` is a call that :mod:`~tvm_ios.ops.recurrence_function` emits."""
    return _calls(expr, recurrence_function.FUNCTION)


def _calls(expr: relax.Expr, function: str) -> bool:
    """Return whether ``expr`` is a call of a TIR function, whose name goes on with a number."""
    return is_op(expr, "call_tir") and expr.args[0].name_hint.startswith(f"{function}_")


def broadcast_kind(shape: tuple[int, ...], result: tuple[int, ...]) -> Broadcast | None:
    """Return how an operand of ``shape`` broadcasts to ``result``; None if it does not."""
    if shape == result:
        return "full"
    padded = (1,) * (len(result) - len(shape)) + shape
    if len(padded) != len(result):
        return None
    if any(p not in (1, r) for p, r in zip(padded, result, strict=True)):
        return None
    axes = [i for i, size in enumerate(padded) if size != 1]
    if axes == [len(result) - 1]:
        return "last"
    return "channel" if axes == [1] and len(result) == 4 else "any"


def program_kinds(anchor: relax.Expr) -> frozenset[Broadcast]:
    """Return the kinds of arguments that an epilogue after ``anchor`` may have.

    The epilogue of a feature map accepts arguments per channel, that of a matrix arguments per
    column. An elementwise operation without an anchor accepts any argument that broadcasts.
    """
    call = elementwise(anchor)
    if call is not None and call.of_numbers:
        return frozenset({"full", "channel", "last", "any"})
    row_major = op_name(anchor) in _ROW_MAJOR and not normalises_channels(anchor)
    if len(known_shape(anchor) or ()) == 4 and not row_major:
        return frozenset({"full", "channel"})
    return frozenset({"full", "last"})


def normalises_channels(expr: relax.Expr) -> bool:
    """Return whether ``expr`` is a layer normalisation of the channels of images."""
    if op_name(expr) != "nn.layer_norm" or len(known_shape(expr) or ()) != 4:
        return False
    return [int(axis) % 4 for axis in expr.attrs.axes] == [1]


def flops_of(anchor: relax.Expr) -> int:
    """Return the floating-point operations of a convolution, product or attention; else 0.

    Open sizes count as in the example.
    """
    return hint_of(_flops_of(anchor))


def _flops_of(anchor: relax.Expr) -> AnySize:
    name = op_name(anchor)
    if name in ("nn.conv1d", "nn.conv2d", "nn.conv3d"):
        weights = static_shape(anchor.args[1], "a weight")
        return 2 * math.prod(static_shape(anchor, "a result")) * math.prod(weights[1:])
    if name == "matmul":
        depth = static_shape(anchor.args[0], "a matrix")[-1]
        return 2 * math.prod(static_shape(anchor, "a result")) * depth
    if name in ("nn.attention", "nn.attention_bias"):
        batch, queries, heads, depth = static_shape(anchor.args[0], "a tensor of queries")
        _, keys, _, columns = static_shape(anchor.args[2], "a tensor of values")
        return 2 * batch * heads * queries * keys * (depth + columns)
    return 0


def _is_depthwise(conv: relax.Call) -> bool:
    weights = conv.args[1].ty.shape
    if int(conv.attrs.groups) == 1 or not isinstance(weights, relax.ShapeExpr):
        return False
    inputs = weights.values[1]
    return isinstance(inputs, tvm.tirx.IntImm) and int(inputs) == 1
