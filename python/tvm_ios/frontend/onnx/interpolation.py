# SPDX-License-Identifier: Apache-2.0
"""Interpolation along one axis as a matrix, by the definitions of ONNX's ``Resize``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...sizes.size import AnySize, is_open, known_equal

COORDINATES = (
    "align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
    "tf_crop_and_resize", "tf_half_pixel_for_nn",
)  # fmt: skip
TIE = 1e-6
"""How far from the middle of two elements a place still is there, as in ONNX Runtime."""

NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x) + (x - np.floor(x) >= 0.5 - TIE),
    "round_prefer_floor": lambda x: np.floor(x) + (x - np.floor(x) > 0.5 + TIE),
}


@dataclass(frozen=True)
class Interpolation:
    """How an axis is resized.

    Attributes
    ----------
    size, new_size : size
        Only what is said of an axis, and not the matrix, is known of open ones.
    scale : float or None
        The ratio of the sizes before the new one was rounded; None for that of open sizes.
    mode : str
        "nearest", "linear" or "cubic".
    coordinates : str
        One of :data:`COORDINATES`.
    nearest : str
        Which neighbour is the nearest, one of :data:`NEAREST`.
    alpha : float
        The coefficient of a cubic interpolation.
    antialias : bool
        Whether the window becomes wider where the axis becomes shorter.
    exclude_outside : bool
        Whether weights of elements beyond the ends count for those within.
    region : tuple of float
        The begin and end of the part that ``tf_crop_and_resize`` takes.
    """

    size: AnySize
    new_size: AnySize
    scale: float | None
    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    alpha: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def is_identity(self) -> bool:
        whole = self.coordinates != "tf_crop_and_resize" or self.region == (0.0, 1.0)
        return known_equal(self.size, self.new_size) and self.scale in (1.0, None) and whole

    @property
    def is_open(self) -> bool:
        """Whether a size is open."""
        return is_open((self.size, self.new_size))

    @property
    def is_of_ratio(self) -> bool:
        """Whether the scale is the ratio of the sizes."""
        if self.scale is None or not self.is_open:
            return self.scale is None or self.size * self.scale == self.new_size
        exact = Fraction(self.scale)
        return known_equal(self.size * exact.numerator, self.new_size * exact.denominator)

    @property
    def is_whole(self) -> bool:
        """Whether the new size is a multiple of the old one."""
        return known_equal(self.new_size % self.size, 0)

    @property
    def dtype(self) -> str:
        """The type in which places are computed.

        Which element is the nearest depends on how they are rounded: as in ONNX Runtime.
        """
        return "float32" if self.mode == "nearest" else "float64"

    @property
    def ratio(self) -> float:
        """The scale of an axis whose sizes are known."""
        assert self.scale is not None, "only the scale of open sizes may be their ratio"
        return self.scale

    def origins(self) -> np.ndarray:
        """Return the place in the axis that each new element is from."""
        size, new_size = self.size, self.new_size
        places = np.arange(new_size, dtype=self.dtype)
        assert self.scale is not None, "sizes that are not open have a ratio"
        if self.coordinates == "align_corners":
            return places * (size - 1) / (new_size - 1) if new_size > 1 else np.zeros(1)
        if self.coordinates == "asymmetric":
            return places / self.ratio
        if self.coordinates == "tf_half_pixel_for_nn":
            return (places + 0.5) / self.ratio
        if self.coordinates == "tf_crop_and_resize":
            begin, end = (bound * (size - 1) for bound in self.region)
            if new_size > 1:
                return begin + places * ((end - begin) / (new_size - 1))
            return np.array([0.5 * (begin + end)])
        if self.coordinates == "pytorch_half_pixel" and new_size == 1:
            return np.zeros(1)
        if self.coordinates == "half_pixel_symmetric":
            scale = np.float64(np.dtype(self.dtype).type(self.ratio))
            origins = self._shift() + (places.astype("float64") + 0.5) / scale - 0.5
            return origins.astype(self.dtype)
        return (places + 0.5) / self.ratio - 0.5

    def _shift(self) -> np.floating[Any]:
        """Return how far the middle of the axis moves where the new size is rounded."""
        number = np.dtype(self.dtype).type
        size, new_size = number(self.size), number(self.new_size)
        return size / number(2) * (number(1) - new_size / (size * number(self.ratio)))

    def outside(self) -> np.ndarray:
        """Return which new elements lie beyond the ends, where a region reaches beyond them."""
        if self.coordinates != "tf_crop_and_resize":
            return np.zeros(self.new_size, bool)
        origins = self.origins()
        return (origins < 0) | (origins > self.size - 1)

    def matrix(self) -> np.ndarray:
        """Return the weights ``[new_size, size]``; those of elements outside are 0."""
        origins = self.origins()
        if self.mode == "nearest":
            places = NEAREST[self.nearest](origins)[:, None]
            weights = np.ones((self.new_size, 1))
        else:
            left = np.ceil(origins) - 1
            offsets = self._offsets()
            distances = offsets - (origins - left)[:, None]
            weights = self._kernel(distances * self._factor())
            weights /= weights.sum(1, keepdims=True)
            places = left[:, None] + offsets
        beyond = (places < 0) | (places > self.size - 1)
        if self.exclude_outside:
            weights = np.where(beyond, 0, weights)
            weights /= weights.sum(1, keepdims=True)
        result = np.zeros((self.new_size, self.size))
        rows = np.broadcast_to(np.arange(self.new_size)[:, None], places.shape)
        np.add.at(result, (rows, places.clip(0, self.size - 1).astype("int64")), weights)
        result[self.outside()] = 0
        return result

    def _factor(self) -> float:
        return min(self.scale or 1.0, 1.0) if self.antialias else 1.0

    def _offsets(self) -> np.ndarray:
        """Return the neighbours that count, from the one on the left of a place."""
        reach = 1 if self.mode == "linear" else 2
        first = math.floor(-reach / self._factor()) + 1
        return np.arange(first, 2 - first)

    def _kernel(self, distance: np.ndarray) -> np.ndarray:
        x, a = np.abs(distance), self.alpha
        if self.mode == "linear":
            return np.clip(1 - x, 0, 1)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((x - 5) * x + 8) * x * a - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))
