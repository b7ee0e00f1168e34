# SPDX-License-Identifier: Apache-2.0
"""Quantised networks: values on a grid, and the operators that multiply their integers.

A value whose operator ends with ``clip(round(x), low, high) * scale`` is one of at most 256
multiples of a scale. It is stored as a byte if a convolution or a product by weights on a grid
reads it. That one multiplies and adds integers, exactly, and its first step after that is the
product of both scales. Other operators compute in float32.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from tvm import relax

from ....graph.operators import Operator, OperatorGraph
from ....lowering.no_rule import NoRule, shape_of
from ....lowering.product import product_of
from ....ops.epilogue import Broadcast, Epilogue, Operand, Step
from ....relax_ir.constants import constant_array, held_array
from ....schedule.rounding import INT8
from ..core import Core
from ..isa.dot4 import small
from ..isa.int8 import STORED, Grid
from ..kernels.conv.conv2d import conv2d_kernel
from ..kernels.conv.image import IMAGE
from ..kernels.conv.shape import Conv2d
from ..kernels.factors import Factors, Multiplication
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN, Layout, pack_int8_quads, pack_lowest
from ..kernels.matmul.packing import pack_matrix
from ..kernels.matmul.reduced_precision import pack_int8_dot4, reduced_precision_matmul_kernel
from ..kernels.matmul.reduced_precision import pack_lowest as pack_matrix_lowest
from .base import Choice, CpuLoweredGraph, LoweringConfig
from .bindings import InputBinder, InputBinding
from .bytes_or_floats import faster_in_bytes

_LARGEST = 128  # magnitude of an int8
_STEPS = 255  # from the lowest value of a grid to the highest one
_MOVING = ("concat", "max_pool2d", "strided_slice", "reshape")
_QUAD = 4
_SAMPLE = 16  # weights of a channel that tell most grids apart
_EXACT = 1e-4  # distance from an integer that rounding explains

_Integers: TypeAlias = tuple[np.ndarray, np.ndarray]


def grid_of(epilogue: Epilogue) -> Grid | None:
    """Return the grid that an epilogue's result is on; None if it is on none of 256 values."""
    steps, scale = list(epilogue.steps), 1.0
    factor = _constants(steps, "multiply")
    if factor is not None and len(factor) == 1:
        scale = factor[0]
        steps.pop()
    limits = _constants(steps, "clip")
    if limits is None or len(steps) < 2 or steps[-2].op != "round":
        return None
    low, high = limits
    whole = low == int(low) and high == int(high) and 0 <= high - low <= _STEPS
    if not whole or max(-low, high) > _STEPS or not np.finfo("float32").tiny <= scale < np.inf:
        return None
    return Grid(scale, int(low))


def _constants(steps: list[Step], op: str) -> list[float] | None:
    """Return the constants of the last step if it is ``op`` of the value before and of those."""
    if not steps or steps[-1].op != op:
        return None
    values = [operand for operand in steps[-1].operands if operand.kind != "constant"]
    if values != [Operand("value", len(steps) - 1)]:
        return None
    return [operand.index for operand in steps[-1].operands if operand.kind == "constant"]


def stored_on_grids(
    graph: OperatorGraph, config: LoweringConfig, wide: Collection[relax.Var]
) -> tuple[dict[relax.Var, Grid], dict[str, Factors]]:
    """Return the values that are stored as bytes, and the operators that can multiply such.

    Parameters
    ----------
    graph : OperatorGraph
        The operators.
    config : LoweringConfig
        The lowering config.
    wide : collection of relax.Var
        Values that must be float32.

    Returns
    -------
    (dict of relax.Var to Grid, dict of str to Factors)
        The values; and the names of the operators, with what they would multiply by.
    """
    if not config.int8:
        return {}, {}
    grids: dict[relax.Var, Grid] = {}
    for op in graph.operators:
        grid = _grid_of_parts(op, grids) if _moves(op) else grid_of(op.epilogue)
        if grid is not None and len(op.outputs) == 1 and op.outputs[0] not in wide:
            grids[op.outputs[0]] = grid
    able = {
        op.name: factors_of(found[0], op, config.core)
        for op in graph.operators
        if (found := _multipliable(op, config, grids)) is not None
    }
    operators = [op for op in graph.operators if op.name in able]
    read = {op.call.args[0] for op in operators if _chosen(op, able[op.name], config)}
    read |= {op.call.args[0] for op in graph.operators if _casts_bytes(op, grids)}
    for op in reversed(graph.operators):  # readers before producers
        if _moves(op) and read.intersection(op.outputs):
            read.update(value for value in op.inputs if value in grids)
    stored = {value: grid for value, grid in grids.items() if value in read}
    return stored, able


def _casts_bytes(op: Operator, grids: Mapping[relax.Var, Grid]) -> bool:
    """Return whether an operator casts integers on a grid to bytes."""
    if op.opaque or op.kind != "astype" or str(op.call.ty.dtype) not in (STORED, "int8"):
        return False
    grid = grids.get(op.call.args[0])
    return grid is not None and grid.scale == 1.0


def _moves(op: Operator) -> bool:
    """Return whether all elements of an operator's results are elements of its inputs."""
    return op.kind in _MOVING and not op.epilogue.steps


def _grid_of_parts(op: Operator, grids: Mapping[relax.Var, Grid]) -> Grid | None:
    """Return the grid that all inputs are on; None if they are on none or on several."""
    found = {grids.get(value) for value in op.inputs}
    return found.pop() if len(found) == 1 else None


def _multipliable(
    op: Operator, config: LoweringConfig, grids: Collection[relax.Var]
) -> _Integers | None:
    """Return the integers that an operator can multiply bytes by; None if it cannot."""
    if op.opaque or op.kind not in _INTEGERS or op.call.args[0] not in grids:
        return None
    return _INTEGERS[op.kind](op, config)


def _chosen(op: Operator, factors: Factors, config: LoweringConfig) -> bool:
    """Return whether an operator multiplies bytes if it can."""
    variant = config.variants.get(op.name)
    if variant is not None:
        return variant == INT8
    rows = product_of(op).rows if op.kind == "matmul" else 0
    return faster_in_bytes(op, factors, config, rows)


def _of_product(op: Operator, _: LoweringConfig) -> _Integers | None:
    """Return the integers of a product's weights, ``[K, N]``, and the scale of each column."""
    with suppress(NoRule):
        product = product_of(op)
        if product.weights and product.depth % _QUAD == 0:
            weights = held_array(op.call.args[1]).reshape(product.depth, product.columns)
            found = integers_of(np.ascontiguousarray(weights.T))
            return None if found is None else (found[0].T, found[1])
    return None


def _of_convolution(op: Operator, config: LoweringConfig) -> _Integers | None:
    """Return the integers of a convolution's weights, and the scale of each result's channel."""
    groups, lanes = int(op.call.attrs.groups), config.core.lanes
    channels, results = shape_of(op.call.args[0])[1], shape_of(op.call)[1]
    if groups > 1 and (channels // groups % lanes or results // groups % lanes):
        return None
    weights = constant_array(op.call.args[1])
    return None if weights is None else integers_of(weights)


_INTEGERS = {"conv2d": _of_convolution, "matmul": _of_product}
"""What returns the integers that an operator of a kind can multiply by; None if it cannot."""

_NEIGHBOURS = {"conv2d": 1, "matmul": 0}
"""The axis of the integers along which they are brought together."""


def multiplies_bytes(lowered: CpuLoweredGraph, op: Operator) -> bool:
    """Return whether an operator multiplies bytes; such are not merged, as their grids differ."""
    implementation = lowered.implementations[op.index]
    return implementation is not None and implementation.kernel.variant == INT8


def integers_of(weights: np.ndarray) -> _Integers | None:
    """Return the integers that weights are multiples of, by each channel of the result.

    Parameters
    ----------
    weights : numpy.ndarray
        float32 ``[K, ...]``.

    Returns
    -------
    (numpy.ndarray, numpy.ndarray) or None
        int8, and float32 ``[K]``: their product is the weights, but for rounding.
        None if there are none.
    """
    rows = weights.reshape(len(weights), -1)
    largest = np.abs(rows).max(axis=1)
    if weights.dtype != np.float32 or not np.isfinite(largest).all():
        return None
    samples = rows[:, :: max(1, rows.shape[1] // _SAMPLE)]
    scales = np.where(largest > 0, 0.0, 1.0).astype("float32")
    for count in range(1, _LARGEST + 1):
        scale = largest / np.float32(count)
        open_ = np.flatnonzero(scales == 0)
        likely = open_[_on_grid(samples[open_], scale[open_])]
        sure = likely[_on_grid(rows[likely], scale[likely])]
        scales[sure] = scale[sure]
        if (scales > 0).all():
            integers = np.rint(rows / scales[:, None])
            if integers.max(initial=0) == _LARGEST or _overflows(integers):
                return None
            return integers.astype("int8").reshape(weights.shape), scales
    return None


def _overflows(integers: np.ndarray) -> bool:
    """Return whether a sum of products by a row of integers may be no int32."""
    return bool(_STEPS * np.abs(integers).sum(axis=1).max(initial=0) > np.iinfo("int32").max)


def _on_grid(rows: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return which rows are multiples of their scales."""
    quotients = rows / scales[:, None]
    return np.abs(quotients - np.rint(quotients)).max(axis=1, initial=0.0) < _EXACT


def convolve_int8(
    op: Operator,
    conv: Conv2d,
    arguments: tuple[InputBinding, ...],
    binder: InputBinder,
    config: LoweringConfig,
) -> Choice | None:
    """Return the kernel of a convolution of bytes; None if its operands are no bytes.

    Parameters
    ----------
    op : Operator
        The convolution.
    conv : Conv2d
        Its geometry.
    arguments : tuple of InputBinding
        Of its epilogue.
    binder : InputBinder
        Makes the bindings.
    config : LoweringConfig
        The lowering config.
    """
    data, core = op.call.args[0], config.core
    found = _operands(op, binder, config)
    if found is None:
        return None
    grid, integers, scales, factors = found
    if grid.low > 0 and conv.is_open:
        return None  # no byte stands for the zeros of the padding
    few = not binder.layout(data).block and conv.channels <= IMAGE.block
    source, layout = IMAGE if few else Layout(core.lanes), Layout(core.lanes)
    conv = replace(conv, epilogue=_after(("multiply", "channel"), conv.epilogue))
    multiplication = Multiplication.of(factors, core)
    low = grid.low + multiplication.offset
    kernel = conv2d_kernel(conv, source, layout, core, factors=factors, low=grid.low)
    quads = pack_int8_quads(integers, source.block, core.lanes, conv.groups)
    bindings = [
        binder.on_grid(data, source, grid),
        InputBinding(multiplication.pack(quads)),
        *([InputBinding(pack_lowest(integers, low, core.lanes))] if low else []),
        *arguments,
        InputBinding(layout.pack((scales * np.float32(grid.scale)).reshape(1, -1, 1, 1))),
    ]
    return Choice(replace(kernel, variant=INT8), tuple(bindings), layout)


def multiply_int8(
    op: Operator, arguments: tuple[InputBinding, ...], binder: InputBinder, config: LoweringConfig
) -> tuple[Kernel, tuple[InputBinding, ...]] | None:
    """Return the kernel of a product of bytes, and its bindings; None if its operands are none.

    Parameters
    ----------
    op : Operator
        The product.
    arguments : tuple of InputBinding
        Of its epilogue.
    binder : InputBinder
        Makes the bindings.
    config : LoweringConfig
        The lowering config.
    """
    left, lanes = op.call.args[0], config.core.lanes
    found = _operands(op, binder, config)
    if found is None:
        return None
    grid, integers, scales, factors = found
    product = product_of(op)
    multiplication = Multiplication.of(factors, config.core)
    low = grid.low + multiplication.offset
    product = replace(product, epilogue=_after(("multiply", "last"), product.epilogue))
    kernel = reduced_precision_matmul_kernel(product, config.core, factors, grid.low)
    bindings = (
        binder.on_grid(left, PLAIN, grid),
        InputBinding(pack_int8_dot4(pack_matrix(integers, lanes), multiplication)),
        *([InputBinding(pack_matrix_lowest(integers, low, lanes))] if low else []),
        *arguments,
        InputBinding(scales * np.float32(grid.scale)),
    )
    return replace(kernel, variant=INT8), bindings


def _operands(
    op: Operator, binder: InputBinder, config: LoweringConfig
) -> tuple[Grid, np.ndarray, np.ndarray, Factors] | None:
    """Return the grid of the bytes that an operator multiplies, its integers and their scales.

    None if it multiplies float32.
    """
    grid = binder.format(op.call.args[0])
    found = _INTEGERS[op.kind](op, config) if isinstance(grid, Grid) else None
    if not isinstance(grid, Grid) or found is None:
        return None
    factors = factors_of(found[0], op, config.core)
    return (grid, *found, factors) if _chosen(op, factors, config) else None


def factors_of(integers: np.ndarray, op: Operator, core: Core) -> Factors:
    """Return what an operator multiplies by; small ones only if that is faster."""
    faster = core.int8_dot4 is not None and core.int8_dot4.small is not None
    return "small quads" if faster and small(integers, _NEIGHBOURS[op.kind]) else "quads"


def _after(first: tuple[str, Broadcast], epilogue: Epilogue) -> Epilogue:
    """Return an epilogue whose first step is an operation with one more argument."""
    name, kind = first
    argument = Operand("argument", len(epilogue.arguments))
    step = Step(name, (Operand("value", 0), argument))

    def later(operand: Operand) -> Operand:
        return replace(operand, index=operand.index + 1) if operand.kind == "value" else operand

    steps = (replace(s, operands=tuple(map(later, s.operands))) for s in epilogue.steps)
    return Epilogue((step, *steps), (*epilogue.arguments, kind))
