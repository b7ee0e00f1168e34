# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations and data movement of row-major tensors."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from tvm import relax

from ....graph.operators import Operator
from ....graph.rearrange import Rearrangement
from ....lowering.no_rule import NoRule, shape_of
from ....ops.tensor import TensorSpec
from ....ops.window import Window
from ....relax_ir.expressions import is_float32
from ....sizes.size import is_open, size_of
from ..isa.storage import Format
from ..kernels.compose import fused_horizontally, with_shapes
from ..kernels.convert import unblock_kernel
from ..kernels.kernel import Kernel, SharedCode
from ..kernels.layout import PLAIN
from ..kernels.maps.planes import Planes, planes_kernel
from ..kernels.rows.strided import strided_kernel
from ..kernels.rows.strided_axes import StridedMap
from ..kernels.storage import with_storage
from .base import Choice, LoweringConfig, epilogue_inputs, row_major
from .bindings import InputBinder, InputBinding

_LINE = 64  # bytes: the alignment that code expects of a tensor


def elementwise(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute elementwise operations on operands that are broadcast in any way."""
    if op.source is None:
        raise NoRule
    moved = Rearrangement.of(shape_of(op.source)).broadcast(shape_of(op.outputs[0]))
    return mapped(op, op.source, moved, binder, config)


def movement(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a chain of reshapes, transpositions, broadcasts and slices, and its epilogue.

    Raises
    ------
    NoRule
        If strides cannot express the chain.
    """
    source, moved = op.call.args[0], movement_of(op)
    layout = binder.layout(source)
    if layout.block and moved.only_reshapes and not op.epilogue.steps:
        kernel = unblock_kernel(shape_of(source), layout)
        kernel = with_shapes(kernel, [kernel.inputs[0].shape], [moved.shape])
        return Choice(kernel, (InputBinding(source),), PLAIN)
    return mapped(op, source, moved, binder, config)


def sampling(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Slice the rows and columns of a blocked feature map; the result stays blocked.

    Raises
    ------
    NoRule
        If the operand is not blocked, or the slice affects other axes.
    """
    source, moved = op.call.args[0], movement_of(op)
    layout = binder.layout(source)
    if not layout.block or len(moved.shape) != 4 or moved.shape != moved.stored:
        raise NoRule
    shape, result = shape_of(source), moved.shape
    (*planes, down, right), offset = moved.strides.steps, moved.strides.offset
    y, x, stride, beyond = offset // shape[3], offset % shape[3], down // shape[3], down % shape[3]
    whole = result[:2] == shape[:2] and planes == [
        shape[1] * shape[2] * shape[3],
        shape[2] * shape[3],
    ]
    if is_open((stride, beyond, right, y, x)):
        raise NoRule
    if not whole or beyond or y >= shape[2] or min(stride, right) < 1:
        raise NoRule
    rows = Window(shape[2], result[2], 1, stride, before=-y)
    columns = Window(shape[3], result[3], 1, right, before=-x)
    slices = Planes("identity", shape[0], shape[1], rows, columns, epilogue=op.epilogue)
    bindings = (InputBinding(source), *epilogue_inputs(op, binder, layout))
    return Choice(planes_kernel(slices, layout, config.core), bindings, layout)


def split(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Split a tensor along one axis into the parts that are read.

    Raises
    ------
    NoRule
        If the tuple itself is read, or the operand is not of float32.
    """
    source = op.call.args[0]
    whole = not isinstance(op.call.ty, relax.TupleType)  # a split into one part yields no tuple
    if whole or not is_float32(source) or op.bindings[0].var in op.outputs:
        raise NoRule
    shape = shape_of(source)
    axis = int(op.call.attrs.axis) % len(shape)
    sizes = [size_of(part.shape.values[axis]) for part in op.call.ty.fields]
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    index = {binding.var: binding.value.index for binding in op.bindings[1:]}
    kernels = []
    for value in op.outputs:
        part = Rearrangement.of(shape).part(axis, *bounds[index[value]])
        kernels.append(strided_kernel(StridedMap(part.stored, part.strides), config.core))
    return row_major(fused_horizontally(kernels), (binder.plain(source),), op)


def movement_of(op: Operator) -> Rearrangement:
    """Return the rearrangement of the operand that the operator's movements amount to."""
    moved = Rearrangement.of(shape_of(op.call.args[0])).then(op.anchor)
    if moved is None:
        raise NoRule
    for binding in op.bindings[1:]:
        following = moved.then(binding.value)
        if following is None:
            break
        moved = following
    return moved


def mapped(
    op: Operator,
    source: relax.Expr,
    moved: Rearrangement,
    binder: InputBinder,
    config: LoweringConfig,
    *,
    read: Format | None = None,
    written: Format | None = None,
) -> Choice:
    """Apply the operator's epilogue to ``source`` as rearranged by ``moved``.

    Parameters
    ----------
    op : Operator
    source : relax.Expr
    moved : Rearrangement
    binder : InputBinder
    config : LoweringConfig
    read, written : Format or None
        The formats of the source and of the result if their type is not float32.

    Raises
    ------
    NoRule
        If strides cannot express how an argument is broadcast.
    """
    arguments = []
    for expr in op.arguments:
        argument = Rearrangement.of(shape_of(expr)).broadcast(moved.shape).reshaped(moved.stored)
        if argument.stored != moved.stored:
            raise NoRule
        arguments.append(argument.strides)
    strided = StridedMap(moved.stored, moved.strides, op.epilogue, tuple(arguments))
    bindings = tuple(binder.plain(expr) for expr in (source, *op.arguments))

    def kernel_of(strided: StridedMap) -> Kernel:
        return with_storage(
            strided_kernel(strided, config.core),
            {} if read is None else {0: read},
            {} if written is None else {0: written},
        )

    choice = row_major(kernel_of(strided), bindings, op)
    begin, part = strided.part(_LINE // TensorSpec((1,), choice.kernel.inputs[0].dtype).num_bytes)
    if part == strided:
        return choice
    begins = (begin, *[0] * (len(choice.kernel.tensors) - 1))
    shared = SharedCode(choice.kernel.key, kernel_of(part), begins)
    return replace(choice, kernel=replace(choice.kernel, shared=shared))
