# SPDX-License-Identifier: Apache-2.0
"""Operators on tensors whose lengths are counted: which axis of the result has the length.

An operator computes the elements that do not count as well. A rule makes sure that those that count
do not depend on them, and says where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import relax

from ...sizes.arithmetic import smallest
from ...sizes.size import known_equal
from ..emitter import shape_of
from .counted import Counted
from .node_emitter import NodeEmitter
from .operators import Value

Convert = Callable[[Sequence[Value], Mapping[str, Any]], Value]


@dataclass(frozen=True)
class Call:
    """A node, some of whose inputs have lengths that are counted.

    Attributes
    ----------
    emit : NodeEmitter
    inputs : sequence of Value
    attributes : mapping of str to value
    convert : callable
        Converts the node, with other inputs and attributes.
    """

    emit: NodeEmitter
    inputs: Sequence[Value]
    attributes: Mapping[str, Any]
    convert: Convert

    @property
    def counted(self) -> list[Counted]:
        return [x for x in self.inputs if isinstance(x, Counted)]

    @property
    def first(self) -> Counted:
        return self.counted[0]

    def tensors(self) -> list[Value]:
        """Return the inputs as tensors of the largest lengths."""
        return [x.tensor if isinstance(x, Counted) else x for x in self.inputs]

    def along(self, axis: int) -> Value:
        """Return the result, with the length of the first input along an axis."""
        result = self.convert(self.tensors(), self.attributes)
        count = self.first.count
        if isinstance(result, tuple):
            return tuple(None if x is None else Counted(x, count, axis) for x in result)
        assert isinstance(result, relax.Expr), "a tensor is made of tensors"
        return Counted(result, count, axis)

    def with_valid(self, place: int) -> Call:
        """Return the call with 0 for the indices of an input that do not count."""
        x, emit = self.only(place), self.emit
        grid = emit.along(emit.positions(x.most, "int64"), x.axis, len(shape_of(x.tensor)))
        counts = emit(relax.op.less(grid, x.count))
        zero = emit.scalar(0, x.tensor)
        valid = Counted(emit(relax.op.where(counts, x.tensor, zero)), x.count, x.axis)
        inputs = [valid if i == place else given for i, given in enumerate(self.inputs)]
        return replace(self, inputs=inputs)

    def refused(self) -> Exception:
        return self.emit.error(
            "reads a tensor whose length is not known before the network runs, in a way that is "
            "not supported."
        )

    def only(self, place: int) -> Counted:
        """Return an input, the only one whose length is counted."""
        given = self.inputs[place] if place < len(self.inputs) else None
        if not isinstance(given, Counted) or len(self.counted) > 1:
            raise self.refused()
        return given

    def integers(self, place: int, name: str) -> list[int] | None:
        """Return integers of an input, or of the attribute that it was before; None without."""
        if name in self.attributes:
            given = self.attributes[name]
            return [given] if isinstance(given, int) else list(given)
        value = self.inputs[place] if place < len(self.inputs) else None
        if value is None:
            return None
        if not isinstance(value, relax.Expr):
            raise self.refused()
        return self.emit.integers(value, f"its {name}")


Rule = Callable[[Call], Value]


def convert_counted(name: str, call: Call) -> Value:
    """Convert a node of an operator, by its rule.

    Raises
    ------
    ModelError
        If it has none, or the rule does not allow the inputs.
    """
    rule = _RULES.get(name)
    if rule is None:
        raise call.refused()
    return rule(call)


def _pointwise(call: Call) -> Value:
    """Combine tensors whose axes with this length coincide; others have one element there."""
    first = call.first
    behind = len(shape_of(first.tensor)) - first.axis
    rank = 0
    for x in call.inputs:
        tensor = x.tensor if isinstance(x, Counted) else x
        if not isinstance(tensor, relax.Expr):
            raise call.refused()
        shape = shape_of(tensor)
        rank = max(rank, len(shape))
        if isinstance(x, Counted):
            if len(shape) - x.axis != behind or not _same(x, first):
                raise call.refused()
        elif len(shape) >= behind and not known_equal(shape[-behind], 1):
            raise call.refused()
    return call.along(rank - behind)


def _same(a: Counted, b: Counted) -> bool:
    return known_equal(a.most, b.most) and a.count.same_as(b.count)


def _transposed(call: Call) -> Value:
    x = call.only(0)
    ndim = len(shape_of(x.tensor))
    order = call.attributes.get("perm") or [*range(ndim)][::-1]
    return call.along(list(order).index(x.axis))


def _unsqueezed(call: Call) -> Value:
    x, axes = call.only(0), call.integers(1, "axes") or []
    ndim = len(shape_of(x.tensor)) + len(axes)
    added = set(call.emit.axes(axes, ndim))
    return call.along([i for i in range(ndim) if i not in added][x.axis])


def _squeezed(call: Call) -> Value:
    x, axes = call.only(0), call.integers(1, "axes")
    shape = shape_of(x.tensor)
    if axes is None:  # whether it removes the axis depends on its length
        raise call.refused()
    gone = set(call.emit.axes(axes, len(shape)))
    if x.axis in gone:
        raise call.refused()
    return call.along([i for i in range(len(shape)) if i not in gone].index(x.axis))


def _gathered(call: Call) -> Value:
    data, indices = call.inputs[:2]
    axis = int(call.attributes.get("axis", 0))
    if isinstance(indices, Counted):
        x = call.only(1)
        assert isinstance(data, relax.Expr), "the other input is a tensor"
        return call.with_valid(1).along(call.emit.axis(axis, len(shape_of(data))) + x.axis)
    x = call.only(0)
    axis = call.emit.axis(axis, len(shape_of(x.tensor)))
    if axis == x.axis or not isinstance(indices, relax.Expr):
        raise call.refused()
    added = len(shape_of(indices)) - 1
    return call.along(x.axis if x.axis < axis else x.axis + added)


def _gathered_points(call: Call) -> Value:
    x = call.only(1)
    if call.attributes.get("batch_dims", 0) or x.axis == len(shape_of(x.tensor)) - 1:
        raise call.refused()
    return call.with_valid(1).along(x.axis)


def _joined(call: Call) -> Value:
    first = call.first
    ndim = len(shape_of(first.tensor))
    axis = call.emit.axis(int(call.attributes["axis"]), ndim)
    alike = len(call.counted) == len(call.inputs) and all(
        x.axis == first.axis and _same(x, first) for x in call.counted
    )
    if not alike or axis == first.axis:
        raise call.refused()
    return call.along(first.axis)


def _split(call: Call) -> Value:
    x = call.only(0)
    axis = call.emit.axis(int(call.attributes.get("axis", 0)), len(shape_of(x.tensor)))
    if axis == x.axis:
        raise call.refused()
    return call.along(x.axis)


def _normalised(call: Call) -> Value:
    """Normalise along other axes; before version 13, along all behind one."""
    x = call.only(0)
    ndim, flattens = len(shape_of(x.tensor)), call.emit.opset < 13
    axis = call.emit.axis(int(call.attributes.get("axis", 1 if flattens else -1)), ndim)
    if axis == x.axis or (flattens and axis < x.axis):
        raise call.refused()
    return call.along(x.axis)


def _reduced(call: Call) -> Value:
    x = call.only(0)
    ndim = len(shape_of(x.tensor))
    axes = call.integers(1, "axes")
    if not axes:
        raise call.refused()
    gone = set(call.emit.axes(axes, ndim))
    if x.axis in gone:
        raise call.refused()
    if call.attributes.get("keepdims", 1):
        return call.along(x.axis)
    return call.along([i for i in range(ndim) if i not in gone].index(x.axis))


def _places(call: Call) -> Value:
    x = call.only(0)
    ndim = len(shape_of(x.tensor))
    axis = call.emit.axis(int(call.attributes.get("axis", 0)), ndim)
    if axis == x.axis:
        raise call.refused()
    gone = 0 if call.attributes.get("keepdims", 1) else int(axis < x.axis)
    return call.along(x.axis - gone)


def _multiplied(call: Call) -> Value:
    x = call.only(0)
    ndim = len(shape_of(x.tensor))
    right = call.inputs[1]
    assert isinstance(right, relax.Expr), "the other input is a tensor"
    if x.axis != ndim - 2 or len(shape_of(right)) != 2:
        raise call.refused()
    return call.along(x.axis)


def _sliced(call: Call) -> Value:
    """Take parts along other axes, or the first elements along this one."""
    x = call.only(0)
    ndim = len(shape_of(x.tensor))
    begins, ends = call.integers(1, "starts") or [], call.integers(2, "ends") or []
    axes = call.emit.axes(call.integers(3, "axes") or [*range(len(begins))], ndim)
    steps = call.integers(4, "steps") or [1] * len(axes)
    if x.axis not in axes:
        return call.along(x.axis)
    place = axes.index(x.axis)
    if begins[place] != 0 or steps[place] != 1 or ends[place] <= 0:
        raise call.refused()
    emit = call.emit
    limit = emit.scalar(smallest(ends[place], x.most), x.count)
    result = call.along(x.axis)
    assert isinstance(result, Counted), "one tensor is sliced"
    return Counted(result.tensor, emit(relax.op.minimum(x.count, limit)), x.axis)


def _reshaped(call: Call) -> Value:
    """Keep what is before and behind the axis, which the shape says as -1 or 0."""
    x = call.only(0)
    shape, wanted = list(shape_of(x.tensor)), call.integers(1, "shape") or []
    if not call.attributes.get("allowzero", 0):
        wanted = [
            shape[i] if size == 0 and i < len(shape) and i != x.axis else size
            for i, size in enumerate(wanted)
        ]
    before, behind = math.prod(shape[: x.axis]), math.prod(shape[x.axis + 1 :])
    for place, size in enumerate(wanted):
        rest = [*wanted[:place], *wanted[place + 1 :]]
        free = size == -1 or (size == 0 and place == x.axis)
        parts = math.prod(wanted[:place]), math.prod(wanted[place + 1 :])
        fits = all(map(known_equal, parts, (before, behind)))
        if free and fits and min(rest, default=1) > 0:
            sizes = call.emit.sizes([*wanted[:place], x.most, *wanted[place + 1 :]], "int64")
            made = call.convert([x.tensor, sizes], {})
            assert isinstance(made, relax.Expr), "a tensor is reshaped"
            return Counted(made, x.count, place)
    raise call.refused()


def _flattened(call: Call) -> Value:
    x = call.only(0)
    shape = shape_of(x.tensor)
    axis = int(call.attributes.get("axis", 1))
    if x.axis != 0 or axis != 1:
        raise call.refused()
    assert shape, "it has an axis"
    return call.along(0)


def _shape(call: Call) -> Value:
    """Return the sizes, one of which is counted."""
    x, emit = call.only(0), call.emit
    sizes = list(shape_of(x.tensor))
    begin, end, _ = slice(call.attributes.get("start", 0), call.attributes.get("end")).indices(
        len(sizes)
    )
    if x.axis not in range(begin, end):
        return emit.sizes(sizes[begin:end], "int64")
    parts = [
        emit.reshape(x.count, [1]) if i == x.axis else emit.sizes([sizes[i]], "int64")
        for i in range(begin, end)
    ]
    return parts[0] if len(parts) == 1 else emit(relax.op.concat(parts, 0))


_POINTWISE = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu",
    "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater",
    "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu",
    "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or",
    "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu",
    "Where", "Xor",
)  # fmt: skip

_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_POINTWISE, _pointwise),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    "ArgMax": _places,
    "ArgMin": _places,
    "Concat": _joined,
    "Flatten": _flattened,
    "Gather": _gathered,
    "GatherND": _gathered_points,
    "LogSoftmax": _normalised,
    "MatMul": _multiplied,
    "Reshape": _reshaped,
    "Shape": _shape,
    "Slice": _sliced,
    "Softmax": _normalised,
    "Split": _split,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
