# SPDX-License-Identifier: Apache-2.0
"""The builder interface with which the zoo describes each network once for all output formats.

A network is a function of a :class:`Builder` and its inputs. The builder computes shapes and draws
weights, so that every format gets the same network with the same numbers. A subclass only writes
single operators in its own representation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Generic, Literal

import numpy as np

from ..support.errors import ModelError
from .values import Handle, Padding, Pair, Value, Window
from .weights import Filters, LstmWeights, NormStatistics, Weights

Elementwise = Literal["add", "gelu", "multiply", "relu", "relu6", "sigmoid", "subtract", "tanh"]


class Builder(ABC, Generic[Handle]):
    """A builder of networks in inference form, float32, with feature maps in NCHW.

    Parameters
    ----------
    seed : int
        Seed of the weights, which are drawn in the order in which the network requests them.
    """

    def __init__(self, seed: int) -> None:
        self._weights = Weights(seed)

    # Convolutional networks

    def conv(
        self,
        x: Value[Handle],
        channels: int,
        kernel: int | Pair,
        *,
        stride: int | Pair = 1,
        padding: Padding = 0,
        dilation: int | Pair = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> Value[Handle]:
        """Convolve.

        Parameters
        ----------
        x : Value
            The input, [N, C, H, W].
        channels : int
            Output channels.
        kernel, stride : int or pair of int
            Height and width of the window and of its steps.
        padding : int, or 2 or 4 int
            Padding of all sides, of (height, width), or above, left, below, right.
        dilation : int or pair of int
            Distances between the taps, in (height, width).
        groups : int
            Groups of channels.
        bias : bool
            Whether to add a bias; not needed before a batch norm.
        """
        window = Window.of(kernel, stride, padding, dilation=dilation)
        filters = self.filters(x.shape[1] // groups, channels, window.kernel, bias=bias)
        return self._convolved(x, filters, window, groups)

    def filters(
        self, in_channels: int, channels: int, kernel: Pair, *, bias: bool = True
    ) -> Filters:
        """Draw the weights of a convolution, for one that several feature maps share."""
        weight = self._weights.kernel((channels, in_channels, *kernel))
        return Filters(weight, self._weights.bias(channels) if bias else None)

    def filtered(self, x: Value[Handle], filters: Filters) -> Value[Handle]:
        """Convolve with given weights; the result has the size of the input."""
        height, width = filters.weight.shape[2:]
        window = Window.of((height, width), 1, (height // 2, width // 2))
        return self._convolved(x, filters, window, 1)

    def _convolved(
        self, x: Value[Handle], filters: Filters, window: Window, groups: int
    ) -> Value[Handle]:
        handle = self._emit_conv(x.handle, filters.weight, filters.bias, window, groups)
        size = window.output_size(x.shape[2:])
        return Value(handle, (x.shape[0], len(filters.weight), *size))

    def batch_norm(self, x: Value[Handle], *, epsilon: float, gain: float = 1.0) -> Value[Handle]:
        """Normalise each channel by constant statistics.

        Parameters
        ----------
        x : Value
            The input, [N, C, H, W].
        epsilon : float
            The constant that is added to the variance.
        gain : float
            The approximate factor on the input. It keeps activations of order one where the input's
            are not, because the random statistics do not match the input.
        """
        statistics = self._weights.norm_statistics(x.shape[1], gain)
        return Value(self._emit_batch_norm(x.handle, statistics, epsilon), x.shape)

    def max_pool(
        self,
        x: Value[Handle],
        kernel: int | Pair,
        *,
        stride: int | Pair = 1,
        padding: Padding = 0,
        ceil: bool = False,
    ) -> Value[Handle]:
        """Take the maximum over a sliding window.

        Parameters
        ----------
        x : Value
            The input, [N, C, H, W].
        kernel, stride : int or pair of int
            Height and width of the window and of its steps.
        padding : int, or 2 or 4 int
            Padding of all sides, of (height, width), or above, left, below, right.
        ceil : bool
            Whether a last window may extend beyond the padded map.
        """
        window = Window.of(kernel, stride, padding, ceil=ceil)
        handle = self._emit_max_pool(x.handle, window)
        return Value(handle, (*x.shape[:2], *window.output_size(x.shape[2:])))

    def avg_pool(
        self,
        x: Value[Handle],
        kernel: int | Pair,
        *,
        stride: int | Pair = 1,
        padding: Padding = 0,
        count_padding: bool = True,
    ) -> Value[Handle]:
        """Take the mean over a sliding window.

        Parameters
        ----------
        x : Value
            The input, [N, C, H, W].
        kernel, stride : int or pair of int
            Height and width of the window and of its steps.
        padding : int, or 2 or 4 int
            Padding of all sides, of (height, width), or above, left, below, right.
        count_padding : bool
            Whether the mean includes the padding as zeros.
        """
        window = Window.of(kernel, stride, padding)
        handle = self._emit_avg_pool(x.handle, window, count_padding)
        return Value(handle, (*x.shape[:2], *window.output_size(x.shape[2:])))

    def global_avg_pool(self, x: Value[Handle]) -> Value[Handle]:
        """Take the mean over each channel's map, to a map of 1 x 1."""
        return Value(self._emit_global_avg_pool(x.handle), (*x.shape[:2], 1, 1))

    def concat(self, values: Sequence[Value[Handle]]) -> Value[Handle]:
        """Join feature maps of equal size along their channels."""
        batch, _, *size = values[0].shape
        channels = sum(value.shape[1] for value in values)
        handle = self._emit_concat([value.handle for value in values])
        return Value(handle, (batch, channels, *size))

    def channels(self, x: Value[Handle], begin: int, end: int) -> Value[Handle]:
        """Keep the channels from `begin` to before `end`."""
        handle = self._emit_channels(x.handle, begin, end)
        return Value(handle, (x.shape[0], end - begin, *x.shape[2:]))

    def map_norm(self, x: Value[Handle], *, epsilon: float) -> Value[Handle]:
        """Normalise all channels of an image together, then scale and shift each by constants."""
        gamma, beta = self._weights.around_one(x.shape[1]), self._weights.bias(x.shape[1])
        return Value(self._emit_map_norm(x, gamma, beta, epsilon), x.shape)

    def odd_pixels(self, x: Value[Handle]) -> Value[Handle]:
        """Keep the second, fourth, ... row and column of each map."""
        size = x.shape[2:]
        return Value(self._emit_odd_pixels(x.handle, size), (*x.shape[:2], *(e // 2 for e in size)))

    # Matrix products and what goes with them

    def dense(self, x: Value[Handle], features: int) -> Value[Handle]:
        """Multiply vectors by a weight of shape (inputs, `features`) and add a bias."""
        product = self.matmul(x, self.weight(x.shape[-1], features))
        return self.add(product, self._constant(self._weights.bias(features)))

    def weight(self, inputs: int, features: int) -> Value[Handle]:
        """Draw a matrix, for a weight that is used more than once."""
        return self._constant(self._weights.dense(inputs, features))

    def matmul(self, x: Value[Handle], y: Value[Handle]) -> Value[Handle]:
        """Multiply matrices, or equally large batches of them."""
        handle = self._emit_matmul(x.handle, y.handle)
        return Value(handle, (*x.shape[:-1], y.shape[-1]))

    def embedding(self, ids: Value[Handle], rows: int, features: int) -> Value[Handle]:
        """Look up the vector of each id in a table of random weights.

        Parameters
        ----------
        ids : Value
            Row numbers, of any shape.
        rows, features : int
            The size of the table.
        """
        table = self._constant(self._weights.table(rows, features))
        return Value(self._emit_take(table.handle, ids.handle), (*ids.shape, features))

    def positions(self, length: int, limit: int, features: int) -> Value[Handle]:
        """Return the vectors of the first `length` positions, of shape (length, features).

        Parameters
        ----------
        length : int
            Positions to return.
        limit : int
            Positions that the network has vectors for.
        features : int
            Elements of a vector.

        Raises
        ------
        ModelError
            If `length` is greater than `limit`.
        """
        if length > limit:
            raise ModelError(f"a sequence of {length} is too long: use a length of at most {limit}")
        return self._constant(self._weights.table(limit, features)[:length])

    def layer_norm(self, x: Value[Handle], *, epsilon: float) -> Value[Handle]:
        """Normalise each vector, then scale and shift its elements by constants."""
        features = x.shape[-1]
        gamma, beta = self._weights.around_one(features), self._weights.bias(features)
        return Value(self._emit_layer_norm(x.handle, gamma, beta, epsilon), x.shape)

    def softmax(self, x: Value[Handle]) -> Value[Handle]:
        """Turn each vector into probabilities."""
        return Value(self._emit_softmax(x.handle), x.shape)

    def bidirectional_lstm(self, x: Value[Handle], hidden: int) -> Value[Handle]:
        """Run an LSTM in both directions over a sequence; the first states are zero.

        Parameters
        ----------
        x : Value
            The sequence, [N, length, features].
        hidden : int
            Units of each direction.

        Returns
        -------
        Value
            The states of both directions in each step, [N, length, 2 * hidden].
        """
        batch, length, features = x.shape
        directions = [self._weights.lstm(features, hidden) for _ in range(2)]
        handle = self._emit_bidirectional_lstm(x, directions)
        return Value(handle, (batch, length, 2 * hidden))

    # Shapes

    def flatten(self, x: Value[Handle]) -> Value[Handle]:
        """Turn each image's feature map into a vector."""
        return self.reshape(x, (x.shape[0], int(np.prod(x.shape[1:]))))

    def reshape(self, x: Value[Handle], shape: tuple[int, ...]) -> Value[Handle]:
        """Reinterpret the elements, in their order, as a tensor of another shape."""
        return Value(self._emit_reshape(x.handle, shape), shape)

    def transpose(self, x: Value[Handle], axes: tuple[int, ...]) -> Value[Handle]:
        """Permute the axes: axis i of the result is axis `axes[i]` of `x`."""
        return Value(self._emit_transpose(x.handle, axes), tuple(x.shape[axis] for axis in axes))

    # Element by element

    def relu(self, x: Value[Handle]) -> Value[Handle]:
        """Replace negative elements by zero."""
        return self._elementwise("relu", x)

    def relu6(self, x: Value[Handle]) -> Value[Handle]:
        """Clip elements to the range from 0 to 6."""
        return self._elementwise("relu6", x)

    def sigmoid(self, x: Value[Handle]) -> Value[Handle]:
        return self._elementwise("sigmoid", x)

    def tanh(self, x: Value[Handle]) -> Value[Handle]:
        return self._elementwise("tanh", x)

    def gelu(self, x: Value[Handle]) -> Value[Handle]:
        """Multiply each element by the normal distribution function of itself."""
        return self._elementwise("gelu", x)

    def add(self, x: Value[Handle], y: Value[Handle]) -> Value[Handle]:
        """Add two tensors; the one with fewer axes is broadcast along the other's first axes."""
        return self._elementwise("add", x, y)

    def multiply(self, x: Value[Handle], y: Value[Handle]) -> Value[Handle]:
        return self._elementwise("multiply", x, y)

    def subtract(self, x: Value[Handle], y: Value[Handle]) -> Value[Handle]:
        return self._elementwise("subtract", x, y)

    def rescale(self, x: Value[Handle], axis: int = -1) -> Value[Handle]:
        """Multiply by a constant for each element of an axis, which is small as at a branch's end.

        Networks call it layer scale (Touvron et al., arXiv 2103.17239).
        """
        factors = np.float32(0.1) * self._weights.around_one(x.shape[axis])
        return self.multiply(x, self._constant(factors.reshape(-1, *[1] * (-1 - axis))))

    def scale(self, x: Value[Handle], factor: float) -> Value[Handle]:
        """Multiply by a number."""
        return self.multiply(x, self._constant(np.array(factor, "float32")))

    def weighted_sum(self, values: Sequence[Value[Handle]]) -> Value[Handle]:
        """Add tensors, each times a positive random weight."""
        factors = self._weights.mixture(len(values))
        scaled = [self.scale(x, factor) for x, factor in zip(values, factors, strict=True)]
        return reduce(self.add, scaled)

    def _elementwise(self, name: Elementwise, *operands: Value[Handle]) -> Value[Handle]:
        shape = np.broadcast_shapes(*(operand.shape for operand in operands))
        return Value(self._emit_elementwise(name, [o.handle for o in operands]), shape)

    def _constant(self, array: np.ndarray) -> Value[Handle]:
        return Value(self._emit_constant(array), array.shape)

    @abstractmethod
    def _emit_constant(self, array: np.ndarray) -> Handle: ...

    @abstractmethod
    def _emit_conv(
        self, x: Handle, weight: np.ndarray, bias: np.ndarray | None, window: Window, groups: int
    ) -> Handle: ...

    @abstractmethod
    def _emit_batch_norm(self, x: Handle, statistics: NormStatistics, epsilon: float) -> Handle: ...

    @abstractmethod
    def _emit_max_pool(self, x: Handle, window: Window) -> Handle: ...

    @abstractmethod
    def _emit_avg_pool(self, x: Handle, window: Window, count_padding: bool) -> Handle: ...

    @abstractmethod
    def _emit_global_avg_pool(self, x: Handle) -> Handle: ...

    @abstractmethod
    def _emit_concat(self, values: list[Handle]) -> Handle: ...

    @abstractmethod
    def _emit_channels(self, x: Handle, begin: int, end: int) -> Handle: ...

    @abstractmethod
    def _emit_map_norm(
        self, x: Value[Handle], gamma: np.ndarray, beta: np.ndarray, epsilon: float
    ) -> Handle: ...

    @abstractmethod
    def _emit_odd_pixels(self, x: Handle, size: Sequence[int]) -> Handle: ...

    @abstractmethod
    def _emit_matmul(self, x: Handle, y: Handle) -> Handle: ...

    @abstractmethod
    def _emit_take(self, table: Handle, ids: Handle) -> Handle: ...

    @abstractmethod
    def _emit_layer_norm(
        self, x: Handle, gamma: np.ndarray, beta: np.ndarray, epsilon: float
    ) -> Handle: ...

    @abstractmethod
    def _emit_softmax(self, x: Handle) -> Handle: ...

    @abstractmethod
    def _emit_bidirectional_lstm(
        self, x: Value[Handle], directions: Sequence[LstmWeights]
    ) -> Handle: ...

    @abstractmethod
    def _emit_reshape(self, x: Handle, shape: tuple[int, ...]) -> Handle: ...

    @abstractmethod
    def _emit_transpose(self, x: Handle, axes: tuple[int, ...]) -> Handle: ...

    @abstractmethod
    def _emit_elementwise(self, name: Elementwise, operands: list[Handle]) -> Handle: ...
