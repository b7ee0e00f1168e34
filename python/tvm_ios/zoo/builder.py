# SPDX-License-Identifier: Apache-2.0
"""The vocabulary in which the zoo describes a network, once for every back end.

A network is a function of a :class:`Builder` and its input. The builder works out shapes and draws
weights, so that every back end is handed the same network with the same numbers; a back end only
says how one operator is written in its own representation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from tvm_ios.errors import ModelError
from tvm_ios.zoo.weights import NormStatistics, Weights

Handle = TypeVar("Handle")
Pair = tuple[int, int]


@dataclass(frozen=True)
class Value(Generic[Handle]):
    """A tensor inside a network.

    Attributes
    ----------
    handle : Handle
        What the back end calls the tensor.
    shape : tuple of int
        NCHW for a feature map, (N, features) for a vector.
    """

    handle: Handle
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """How a convolution or a pool slides, in (height, width)."""

    kernel: Pair
    stride: Pair
    padding: Pair

    @classmethod
    def of(cls, kernel: int | Pair, stride: int | Pair, padding: int | Pair) -> Window:
        """Make a window from sizes that may be given once for both directions."""
        return cls(_pair(kernel), _pair(stride), _pair(padding))

    def output_size(self, size: Sequence[int]) -> Pair:
        """Return the (height, width) that the window makes of a map, rounding down.

        Raises
        ------
        ModelError
            If the window does not fit into the padded map.
        """
        height, width = (
            (extent + 2 * padding - kernel) // stride + 1
            for extent, kernel, stride, padding in zip(
                size, self.kernel, self.stride, self.padding, strict=True
            )
        )
        if height < 1 or width < 1:
            raise ModelError(
                f"a window of {self.kernel} does not fit into a map of {tuple(size)}: "
                "use a larger image_size"
            )
        return height, width


class Builder(ABC, Generic[Handle]):
    """Operators of a convolutional network in inference form, fp32, NCHW.

    Parameters
    ----------
    seed : int
        Seed of the weights, which are drawn in the order in which the network asks for them.
    """

    def __init__(self, seed: int) -> None:
        self._weights = Weights(seed)

    def conv(
        self,
        x: Value[Handle],
        channels: int,
        kernel: int | Pair,
        *,
        stride: int | Pair = 1,
        padding: int | Pair = 0,
        bias: bool = True,
    ) -> Value[Handle]:
        """Convolve, to `channels` output channels; without a bias where a batch norm follows."""
        window = Window.of(kernel, stride, padding)
        batch, in_channels, *size = x.shape
        weight = self._weights.kernel((channels, in_channels, *window.kernel))
        offset = self._weights.bias(channels) if bias else None
        handle = self._emit_conv(x.handle, weight, offset, window)
        return Value(handle, (batch, channels, *window.output_size(size)))

    def batch_norm(self, x: Value[Handle], *, epsilon: float) -> Value[Handle]:
        """Normalise each channel by statistics that are constants."""
        statistics = self._weights.norm_statistics(x.shape[1])
        return Value(self._emit_batch_norm(x.handle, statistics, epsilon), x.shape)

    def relu(self, x: Value[Handle]) -> Value[Handle]:
        """Replace what is negative by zero."""
        return Value(self._emit_relu(x.handle), x.shape)

    def max_pool(
        self,
        x: Value[Handle],
        kernel: int | Pair,
        *,
        stride: int | Pair = 1,
        padding: int | Pair = 0,
    ) -> Value[Handle]:
        """Take the maximum over a sliding window."""
        window = Window.of(kernel, stride, padding)
        handle = self._emit_max_pool(x.handle, window)
        return Value(handle, (*x.shape[:2], *window.output_size(x.shape[2:])))

    def avg_pool(
        self,
        x: Value[Handle],
        kernel: int | Pair,
        *,
        stride: int | Pair = 1,
        padding: int | Pair = 0,
    ) -> Value[Handle]:
        """Take the mean over a sliding window, the padding counted as zeros."""
        window = Window.of(kernel, stride, padding)
        handle = self._emit_avg_pool(x.handle, window)
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

    def flatten(self, x: Value[Handle]) -> Value[Handle]:
        """Turn each image's feature map into a vector."""
        shape = (x.shape[0], int(np.prod(x.shape[1:])))
        return Value(self._emit_flatten(x.handle, shape), shape)

    def dense(self, x: Value[Handle], features: int) -> Value[Handle]:
        """Multiply a vector by a weight of shape (inputs, `features`) and add a bias."""
        batch, inputs = x.shape
        weight = self._weights.dense(inputs, features)
        handle = self._emit_dense(x.handle, weight, self._weights.bias(features))
        return Value(handle, (batch, features))

    @abstractmethod
    def _emit_conv(
        self, x: Handle, weight: np.ndarray, bias: np.ndarray | None, window: Window
    ) -> Handle: ...

    @abstractmethod
    def _emit_batch_norm(self, x: Handle, statistics: NormStatistics, epsilon: float) -> Handle: ...

    @abstractmethod
    def _emit_relu(self, x: Handle) -> Handle: ...

    @abstractmethod
    def _emit_max_pool(self, x: Handle, window: Window) -> Handle: ...

    @abstractmethod
    def _emit_avg_pool(self, x: Handle, window: Window) -> Handle: ...

    @abstractmethod
    def _emit_global_avg_pool(self, x: Handle) -> Handle: ...

    @abstractmethod
    def _emit_concat(self, values: list[Handle]) -> Handle: ...

    @abstractmethod
    def _emit_flatten(self, x: Handle, shape: tuple[int, ...]) -> Handle: ...

    @abstractmethod
    def _emit_dense(self, x: Handle, weight: np.ndarray, bias: np.ndarray) -> Handle: ...


@dataclass(frozen=True)
class Network:
    """An entry of the zoo.

    Attributes
    ----------
    name : str
        What the user calls it.
    image_size : int
        Height and width of the input image, in pixels, unless the user says otherwise.
    describe : callable
        Builds the network on an image of shape (batch, 3, image_size, image_size) and returns its
        logits.
    """

    name: str
    image_size: int
    describe: Callable[[Builder[Any], Value[Any]], Value[Any]]


def _pair(extent: int | Pair) -> Pair:
    return (extent, extent) if isinstance(extent, int) else extent
