# SPDX-License-Identifier: Apache-2.0
"""Networks of one operator each, with unusual sizes, for every rule that selects kernels.

A network can be built in any data type: in float32 to be checked, and in float64 as the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..ops.deformed import Columns, deformed_columns
from ..ops.dynamic_grid import dynamic_grid
from ..ops.recurrence import Recurrence
from ..ops.recurrence_function import recurrence
from ..ops.region_parts import RegionPool
from ..ops.regions import pool_regions
from ..relax_ir.building import building
from ..rewrite.grids import expanded
from ..rewrite.recurrence import unrolled

op = relax.op


@dataclass
class Builder:
    """A builder of one network; its weights are the same in every build.

    Attributes
    ----------
    block : relax.BlockBuilder
    dtype : str
        The data type.
    rounded : callable
        Rounds factors to the precision of the multiplication, from float64 to float64.
    """

    block: relax.BlockBuilder
    dtype: str
    rounded: Callable[[np.ndarray], np.ndarray]
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @property
    def emit(self) -> Callable[[relax.Expr], relax.Var]:
        """What binds an expression to a variable."""
        emit: Callable[[relax.Expr], relax.Var] = self.block.emit
        return emit

    def weights(self, *shape: int) -> relax.Expr:
        """Return random weights, scaled to keep the variance of activations."""
        scale = math.prod(shape[1:]) ** -0.5
        return self._constant(self.rounded(scale * self._normal(shape)))

    def bias(self, *shape: int) -> relax.Expr:
        """Return a random bias; it is added, so it is not rounded."""
        return self._constant(self._normal(shape))

    def _normal(self, shape: Sequence[int]) -> np.ndarray:
        return self._random.standard_normal(shape)

    def _constant(self, values: np.ndarray) -> relax.Expr:
        # The checked network must have the same weights as the reference.
        return relax.const(values.astype("float32").astype(self.dtype), self.dtype)


Body = Callable[..., relax.Expr]
"""A function ``body(builder, *inputs)`` that returns the result of a network."""


@dataclass(frozen=True)
class Case:
    """A network of one operator.

    Attributes
    ----------
    name : str
        The name of the check.
    body : Body
        The function that builds the network.
    shapes : tuple of shapes
        The shapes of the inputs.
    product : bool
        Whether it multiplies and adds, so that ``--precision`` applies.
    """

    name: str
    body: Body
    shapes: tuple[tuple[int, ...], ...]
    product: bool = False

    def module(
        self, dtype: str = "float32", rounded: Callable[[np.ndarray], np.ndarray] = lambda x: x
    ) -> tvm.IRModule:
        """Return the network as a Relax module."""
        return module_of(self.body, self.shapes, dtype, rounded)

    def inputs(self, seed: int = 1) -> list[np.ndarray]:
        """Return a normally distributed float32 array for each input."""
        random = np.random.default_rng(seed)
        return [random.standard_normal(shape, "float32") for shape in self.shapes]


def module_of(
    body: Body,
    shapes: Sequence[Sequence[int]],
    dtype: str = "float32",
    rounded: Callable[[np.ndarray], np.ndarray] = lambda x: x,
) -> tvm.IRModule:
    """Build a network as a Relax module with one function, ``main``.

    Parameters
    ----------
    body : Body
        The function that builds the network.
    shapes : sequence of shapes
        The shapes of the inputs.
    dtype : str
        The data type.
    rounded : callable
        Rounds factors to the precision of the multiplication, from float64 to float64.
    """
    block = relax.BlockBuilder()
    inputs = [relax.Var(f"x{i}", relax.TensorType(shape, dtype)) for i, shape in enumerate(shapes)]
    with building(), block.function("main", inputs):
        with block.dataflow():
            result = block.emit_output(body(Builder(block, dtype, rounded), *inputs))
        block.emit_func_output(result)
    return block.get()


def conv(b: Builder, x: relax.Expr, channels: int, size: int = 3, **attributes: Any) -> relax.Var:
    """Emit a convolution, a bias and a ReLU, which form one operator.

    Parameters
    ----------
    b : Builder
        The builder.
    x : relax.Expr
        The input, [N, C, H, W].
    channels : int
        The number of output channels.
    size : int
        The height and width of the window.
    **attributes
        Attributes of ``nn.conv2d``.
    """
    weights = b.weights(channels, int(x.ty.shape[1]), size, size)
    attributes = {"padding": size // 2, **attributes}
    summed = b.emit(op.nn.conv2d(x, weights, **attributes))
    return b.emit(op.nn.relu(b.emit(op.add(summed, b.bias(1, channels, 1, 1)))))


def dense(b: Builder, x: relax.Expr, columns: int) -> relax.Var:
    """Emit a product with transposed weights, as frameworks store them, and a bias.

    Parameters
    ----------
    b : Builder
        The builder.
    x : relax.Expr
        The input, [..., features].
    columns : int
        The number of output features.
    """
    weights = b.emit(op.permute_dims(b.weights(columns, int(x.ty.shape[-1]))))
    return b.emit(op.add(b.emit(op.matmul(x, weights)), b.bias(columns)))


def _depthwise(b: Builder, x: relax.Expr) -> relax.Var:
    channels = int(x.ty.shape[1])
    weights = b.weights(channels, 1, 3, 3)
    return b.emit(op.nn.conv2d(x, weights, padding=1, strides=2, groups=channels))


def _layer_norm(b: Builder, x: relax.Expr) -> relax.Var:
    columns = int(x.ty.shape[-1])
    scale, shift = b.bias(columns), b.bias(columns)
    if b.dtype == "float32":
        return b.emit(op.nn.layer_norm(x, scale, shift, axes=[-1]))
    return _scaled(b, _normal(b, x, [-1]), scale, shift)


def _rms_norm(b: Builder, x: relax.Expr) -> relax.Var:
    scale = b.bias(int(x.ty.shape[-1]))
    if b.dtype == "float32":
        return b.emit(op.nn.rms_norm(x, scale, axes=[-1]))
    squares = b.emit(op.mean(b.emit(op.multiply(x, x)), [-1], True))
    root = b.emit(op.sqrt(b.emit(op.add(squares, relax.const(1e-5, b.dtype)))))
    return b.emit(op.multiply(b.emit(op.divide(x, root)), scale))


def _group_norm(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit a normalisation of groups of 3 channels, some of which lie in two vectors."""
    shape = [int(size) for size in x.ty.shape]
    channels = shape[1]
    scale, shift = b.bias(channels), b.bias(channels)
    if b.dtype == "float32":
        return b.emit(op.nn.group_norm(x, scale, shift, channels // 3, 1, [2, 3]))
    groups = b.emit(op.reshape(x, (shape[0], channels // 3, -1)))
    factors = (b.emit(op.reshape(factor, (channels, 1, 1))) for factor in (scale, shift))
    return _scaled(b, b.emit(op.reshape(_normal(b, groups, [2]), shape)), *factors)


def _instance_norm(b: Builder, x: relax.Expr) -> relax.Var:
    channels = int(x.ty.shape[1])
    scale, shift = b.bias(channels), b.bias(channels)
    if b.dtype == "float32":
        return b.emit(op.nn.instance_norm(x, scale, shift, 1, [2, 3]))
    factors = (b.emit(op.reshape(factor, (channels, 1, 1))) for factor in (scale, shift))
    return _scaled(b, _normal(b, x, [2, 3]), *factors)


def _normal(b: Builder, x: relax.Expr, axes: list[int]) -> relax.Var:
    """Emit a normalisation by hand: TVM's operators do not support float64."""
    mean, variance = (b.emit(f(x, axis=axes, keepdims=True)) for f in (op.mean, op.variance))
    deviation = b.emit(op.sqrt(b.emit(op.add(variance, relax.const(1e-5, b.dtype)))))
    return b.emit(op.divide(b.emit(op.subtract(x, mean)), deviation))


def _scaled(b: Builder, x: relax.Expr, scale: relax.Expr, shift: relax.Expr) -> relax.Var:
    return b.emit(op.add(b.emit(op.multiply(x, scale)), shift))


def _grouped(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit groups of 3 channels, some of which lie in two vectors."""
    weights = b.weights(int(x.ty.shape[1]), 3, 3, 3)
    return b.emit(op.nn.conv2d(x, weights, padding=1, groups=int(x.ty.shape[1]) // 3))


def _parts_of_channels(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit ranges of channels of a convolution's result, which begin within a vector."""
    return _split(b, b.emit(op.nn.relu(conv(b, x, 19))), axis=1)


def _split(b: Builder, x: relax.Expr, axis: int) -> relax.Var:
    parts = b.emit(op.split(x, [5, 12], axis=axis))
    first, last = (b.emit(relax.TupleGetItem(parts, i)) for i in (0, 2))
    return b.emit(op.concat([last, first], axis=axis))


def _rows_by_index(b: Builder, x: relax.Expr, numbers: relax.Expr) -> relax.Var:
    """Emit rows whose indices, some of them negative, are computed and checked."""
    indices = b.emit(op.astype(b.emit(op.clip(numbers, -2, 2)), "int64"))
    rows = relax.const(11, "int64")
    counted = op.where(op.less(indices, relax.const(0, "int64")), op.add(indices, rows), indices)
    return b.emit(op.take(x, b.emit(counted), axis=0))


def _cast(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit casts to bytes, which cut fractions off, and back."""
    whole = b.emit(op.astype(b.emit(op.clip(x, -2, 2)), "int8"))
    return b.emit(op.astype(whole, b.dtype))


def _attention(b: Builder, *inputs: relax.Expr, biased: bool = False) -> relax.Var:
    """Emit an attention of several heads, whose bias is the same for all queries."""
    query, key, value = (b.emit(op.permute_dims(x, (0, 2, 1, 3))) for x in inputs)
    scores = b.emit(op.matmul(query, b.emit(op.permute_dims(key, (0, 1, 3, 2)))))
    scores = b.emit(op.multiply(scores, relax.const(0.25, b.dtype)))
    if biased:
        scores = b.emit(op.add(scores, b.bias(int(inputs[1].ty.shape[1]))))
    product = b.emit(op.matmul(b.emit(op.nn.softmax(scores)), value))
    return b.emit(op.permute_dims(product, (0, 2, 1, 3)))


def _plain(function: Callable[..., relax.Expr], **attributes: Any) -> Body:
    return lambda b, *inputs: b.emit(function(*inputs, **attributes))


def _place(b: Builder, x: relax.Expr, axis: int) -> relax.Expr:
    """Emit the place of the largest element, as a number of the same type."""
    return b.emit(op.astype(b.emit(op.argmax(x, axis)), b.dtype))


def _deformed(b: Builder, x: relax.Expr, offsets: relax.Expr) -> relax.Expr:
    dtype = str(x.ty.dtype)
    columns = Columns(1, 11, 15, 19, (11, 15), (3, 3), (1, 1), (1, 1), (1, 1), dtype=dtype)
    return deformed_columns(b.block, columns, [x, offsets])


def _regions(b: Builder, x: relax.Expr, corners: relax.Expr) -> relax.Expr:
    images = relax.const(np.arange(5) % 2, "int64")
    pool = RegionPool("average", (3, 2), 4.0, samples=2)
    return pool_regions(b.block, pool, x, corners, images)


def _recurrent(b: Builder, x: relax.Expr) -> relax.Expr:
    """Emit a layer of LSTM, in double precision step by step."""
    layer = Recurrence("lstm", ("sigmoid", "tanh", "tanh"), steps=5, batch=3, hidden=21)
    zeros = relax.const(np.zeros((3, 21), b.dtype), b.dtype)
    inputs = [x, b.weights(21, 84), zeros, zeros]
    if b.dtype != "float32":
        return unrolled(b.block, layer, inputs).fields[0]
    return b.emit(relax.TupleGetItem(recurrence(b.block, layer, inputs), 0))


def _on_grid(b: Builder, x: relax.Expr) -> relax.Expr:
    """Emit a tensor in steps of the grid of its range, in double precision by reductions."""
    if b.dtype != "float32":
        scale = expanded(b.block, x).fields[0]
    else:
        scale = b.emit(relax.TupleGetItem(dynamic_grid(b.block, x, (2, 19, 300)), 0))
    return b.emit(relax.op.divide(x, scale))


_IMAGE = (1, 19, 15, 13)

CASES: tuple[Case, ...] = (
    Case("convolution 3x3", lambda b, x: conv(b, x, 21), (_IMAGE,), product=True),
    Case("convolution 1x1", lambda b, x: conv(b, x, 37, 1), (_IMAGE,), product=True),
    Case(
        "first convolution",
        lambda b, x: conv(b, x, 17, 5, strides=2),
        ((1, 3, 31, 29),),
        product=True,
    ),
    Case("dilated convolution", lambda b, x: conv(b, x, 9, dilation=2), (_IMAGE,), product=True),
    # Large enough for Winograd's algorithm if it is enabled.
    Case("wide convolution 3x3", lambda b, x: conv(b, x, 64), ((1, 64, 27, 27),), product=True),
    Case("depthwise convolution", _depthwise, (_IMAGE,)),
    Case("grouped convolution", _grouped, ((1, 21, 15, 13),), product=True),
    Case("dense", lambda b, x: dense(b, x, 37), ((1, 70),), product=True),
    Case("matrix product", _plain(op.matmul), ((37, 53), (53, 29)), product=True),
    Case("batch of products", _plain(op.matmul), ((3, 17, 21), (3, 21, 23)), product=True),
    Case("attention", _attention, ((2, 19, 3, 21), (2, 23, 3, 21), (2, 23, 3, 17)), product=True),
    Case(
        "attention with a bias",
        partial(_attention, biased=True),
        ((1, 37, 2, 16), (1, 41, 2, 16), (1, 41, 2, 16)),
        product=True,
    ),
    Case("max pooling", _plain(op.nn.max_pool2d, pool_size=3, strides=2, padding=1), (_IMAGE,)),
    Case("mean pooling", _plain(op.nn.avg_pool2d, pool_size=3, padding=1), (_IMAGE,)),
    Case("global pooling", _plain(op.nn.adaptive_avg_pool2d, output_size=1), (_IMAGE,)),
    Case("concatenation", lambda b, *xs: b.emit(op.concat(xs, axis=1)), (_IMAGE, (1, 6, 15, 13))),
    Case("softmax", _plain(op.nn.softmax), ((5, 131),)),
    Case("layer normalisation", _layer_norm, ((7, 45),)),
    Case("normalisation by squares", _rms_norm, ((7, 45),)),
    Case("group normalisation", _group_norm, ((2, 21, 15, 13),)),
    Case("instance normalisation", _instance_norm, (_IMAGE,)),
    Case("sum", _plain(op.sum, axis=[2]), ((3, 11, 67),)),
    Case("sum of all", _plain(op.sum), ((3, 211, 307),)),
    Case("maximum", _plain(op.max, axis=[1]), ((3, 67, 11),)),
    Case("tanh", _plain(op.tanh), ((3, 11, 7),)),
    Case("sum of images", _plain(op.add), (_IMAGE, _IMAGE)),
    Case("sum of a row and a column", _plain(op.add), ((7, 1), (1, 45))),
    Case("permutation", _plain(op.permute_dims, axes=[2, 0, 1]), ((3, 11, 7),)),
    Case(
        "slice",
        _plain(op.strided_slice, axes=[1], begin=[1], end=[17], strides=[3]),
        (_IMAGE,),
    ),
    Case("variance", _plain(op.variance, axis=[2]), ((3, 11, 67),)),
    Case("split", partial(_split, axis=2), (_IMAGE,)),
    Case("parts of channels", _parts_of_channels, (_IMAGE,), product=True),
)

CPU_CASES = (
    *CASES,
    Case("rows by index", _rows_by_index, ((11, 7), (23,))),
    Case("place of the maximum", lambda b, x: _place(b, x, 1), ((3, 67, 11),)),
    Case("place of a row's maximum", lambda b, x: _place(b, x, 2), ((3, 11, 67),)),
    Case("casts to bytes", _cast, ((3, 11, 67),)),
    Case("wide convolution 5x5", lambda b, x: conv(b, x, 48, 5), ((1, 48, 27, 27),), product=True),
    Case(
        "wide first convolution",
        lambda b, x: conv(b, x, 64, 7, strides=2),
        ((1, 3, 61, 67),),
        product=True,
    ),
    Case("recurrent layer", _recurrent, ((5, 3, 84),)),
    Case("grid of a range", _on_grid, ((2, 19, 300),)),
    Case("pooling of regions", _regions, ((2, 19, 15, 13), (5, 4))),
    Case("deformed convolution", _deformed, ((1, 11, 15, 19), (1, 18, 11, 15))),
)
"""All cases that a CPU has a kernel of its own for, which other devices compute by others."""
