# SPDX-License-Identifier: Apache-2.0
"""ONNX's products, normalisations and reductions."""

from __future__ import annotations

import numpy as np

from ..draw import Draw, Refused
from .onnx_elementwise import INTEGERS, prepared
from .table import ONNX


@ONNX.operator("MatMul", 3.0)
def product(d: Draw) -> None:
    x = d.operand((1, 2, 2, 3, 3, 4))
    *batch, depth = d.dims(x)
    columns = d.extent() or 1
    if d.chance(0.3):
        found = [
            n
            for n, t in d.types.items()
            if t.dtype == d.dtype(x)
            and len(t.shape) >= 2
            and t.shape[-2] == depth
            and (len(t.shape) == 2 or t.shape[:-2] == tuple(batch[:-1]))
        ]
        other = d.pick(found)
    elif d.chance(0.2) and len(batch) > 1:
        other = d.weights(*batch[:-1], depth, columns, fan=depth)
    else:
        other = d.weights(depth, columns, fan=depth)
    d.add("MatMul", [x, other])


@ONNX.operator("Gemm", 1.5)
def gemm(d: Draw) -> None:
    x = d.operand(2)
    across, along = (int(d.chance(0.4)) for _ in range(2))
    rows, depth = reversed(d.dims(x)) if across else d.dims(x)
    columns = d.extent() or 1
    weights = d.weights(*((columns, depth) if along else (depth, columns)), fan=depth)
    operands = [x, weights]
    if d.chance(0.6):
        operands.append(d.numbers(*d.pick([(columns,), (1, columns), (rows, columns), (rows, 1)])))
    attributes = {"transA": across, "transB": along}
    if d.chance(0.3):
        attributes.update(alpha=0.5, beta=1.5)
    d.add("Gemm", operands, **attributes)


@ONNX.operator("MatMulInteger", 0.3)
def integer_product(d: Draw) -> None:
    x = d.operand((2, 3), ("uint8", "int8"))
    weights = d.random.integers(0, 9, (d.dims(x)[-1], d.integer(1, 9))).astype("uint8")
    d.add("MatMulInteger", [x, d.constant(weights)])


@ONNX.operator("Einsum", 0.5)
def einsum(d: Draw) -> None:
    rank, equation = d.pick([(2, "ij,kj->ik"), (3, "bij,kj->bik"), (4, "bchw,kc->bkhw")])
    x = d.operand(rank)
    if not d.types[x].size:
        raise Refused  # ONNX Runtime divides by it
    depth = d.dims(x)[1 if rank == 4 else -1]
    d.add("Einsum", [x, d.weights(d.integer(1, 9), depth)], equation=equation)


def _over_an_axis(name: str, exact: bool, weight: float) -> None:
    @ONNX.operator(name, weight)
    def generate(d: Draw) -> None:
        x = d.operand(range(1, 5), exact=exact)
        rank = len(d.dims(x))
        attributes = {"axis": d.integer(-rank, rank - 1)} if d.chance(0.7) else {}
        d.add(name, [x], exact=exact, **attributes)


_over_an_axis("Softmax", False, 1.5)
_over_an_axis("LogSoftmax", False, 0.5)
_over_an_axis("Hardmax", True, 0.2)


def _channel_vectors(d: Draw, x: str, count: int) -> list[str]:
    return [d.numbers(d.dims(x)[1]) for _ in range(count)]


@ONNX.operator("BatchNormalization", 2.0)
def batch_norm(d: Draw) -> None:
    x = d.operand((4, 4, 4, 2, 3, 5))
    variance = d.constant(d.random.uniform(0.3, 2.0, d.dims(x)[1]), "float32")
    explicit = {"spatial": 1} if d.opset < 9 and d.chance(0.5) else {}
    d.add("BatchNormalization", [x, *_channel_vectors(d, x, 3), variance], **explicit)


@ONNX.operator("InstanceNormalization", 0.5)
def instance_norm(d: Draw) -> None:
    x = d.operand((3, 4))
    if np.prod(d.dims(x)[2:]) < 4:
        raise Refused  # the variance of a few numbers may be next to nothing
    d.add("InstanceNormalization", [x, *_channel_vectors(d, x, 2)])


@ONNX.operator("LayerNormalization", 1.0)
def layer_norm(d: Draw) -> None:
    x = d.operand((2, 3, 4))
    rank = len(d.dims(x))
    axis = d.pick([-1, -1, rank - 1, d.integer(1, rank - 1)])
    shape = d.dims(x)[axis:]
    if np.prod(shape) < 4:
        raise Refused
    operands = [x, d.numbers(*shape)] + ([d.numbers(*shape)] if d.chance(0.7) else [])
    d.add("LayerNormalization", operands, axis=axis)


@ONNX.operator("RMSNormalization", 0.4)
def rms_norm(d: Draw) -> None:
    x = d.operand((2, 3, 4))
    axis = d.integer(1, len(d.dims(x)) - 1)
    if np.prod(d.dims(x)[axis:]) < 4:
        raise Refused
    d.add("RMSNormalization", [x, d.numbers(*d.dims(x)[axis:])], axis=axis)


@ONNX.operator("GroupNormalization", 0.4)
def group_norm(d: Draw) -> None:
    x = d.operand(4)
    channels = d.dims(x)[1]
    parts = d.pick([g for g in range(1, channels + 1) if channels % g == 0])
    if channels // parts * np.prod(d.dims(x)[2:]) < 4:
        raise Refused
    size = parts if d.opset < 21 else channels
    d.add("GroupNormalization", [x, d.numbers(size), d.numbers(size)], num_groups=parts)


@ONNX.operator("LRN", 0.4)
def local_response(d: Draw) -> None:
    x = d.operand(4)
    d.add("LRN", [x], size=d.pick([1, 3, 5]), alpha=0.1, beta=0.75, bias=1.0)


@ONNX.operator("MeanVarianceNormalization", 0.2)
def mean_variance(d: Draw) -> None:
    x = d.operand(4)
    if np.prod(d.dims(x)[2:]) * d.dims(x)[0] < 4:
        raise Refused
    # ONNX defines the variance as a difference of squares, of which little would be left.
    values = d.values[x].astype("float64")
    if (values.std((0, 2, 3)) < 0.1 * np.abs(values.mean((0, 2, 3)))).any():
        raise Refused
    d.add("MeanVarianceNormalization", [x], axes=[0, 2, 3])


_REDUCTIONS = {
    "ReduceMax": True, "ReduceMin": True, "ReduceSum": False, "ReduceMean": False,
    "ReduceL1": False, "ReduceL2": False, "ReduceSumSquare": False, "ReduceLogSumExp": False,
    "ReduceLogSum": False, "ReduceProd": False,
}  # fmt: skip


def _reduction(name: str, exact: bool) -> None:
    @ONNX.operator(name, 1.0 if exact or name in ("ReduceSum", "ReduceMean") else 0.4)
    def generate(d: Draw) -> None:
        if name == "ReduceLogSum":
            x = prepared(d, 0.05, np.inf)
        else:
            whole = () if name == "ReduceLogSumExp" else INTEGERS
            x = d.operand(range(1, 5), ("float32", "float32", "float32", *whole))
        axes = d.some(range(len(d.dims(x)))) if d.dims(x) else []
        axes = [axis - len(d.dims(x)) if d.chance(0.3) else axis for axis in axes]
        if name == "ReduceMean" and 0 in d.dims(x):
            raise Refused  # ONNX defines no mean of nothing
        attributes, operands = {"keepdims": d.integer(0, 1)}, [x]
        if axes and d.chance(0.8):
            operands.append(d.constant(axes, "int64"))
        d.add(name, operands, exact=exact, **attributes)


for _name, _exact in _REDUCTIONS.items():
    _reduction(_name, _exact)


def _place(name: str) -> None:
    @ONNX.operator(name, 0.4)
    def generate(d: Draw) -> None:
        x = d.operand(range(1, 5), ("float32", "int64"), exact=True)
        axis = d.integer(0, len(d.dims(x)) - 1)
        attributes = {"select_last_index": 1} if d.chance(0.2) else {}
        d.add(name, [x], axis=axis, keepdims=d.integer(0, 1), **attributes)


_place("ArgMax")
_place("ArgMin")


@ONNX.operator("TopK", 0.4)
def top(d: Draw) -> None:
    x = d.operand(range(1, 5), exact=True)
    axis = d.integer(0, len(d.dims(x)) - 1)
    if len(np.unique(d.values[x])) < d.values[x].size:
        raise Refused  # of equal numbers any may come first
    count = d.constant([d.integer(1, max(1, d.dims(x)[axis]))], "int64")
    order = {"largest": d.integer(0, 1)} if d.opset >= 11 else {}
    d.add("TopK", [x, count], 2, exact=True, axis=axis, **order)
