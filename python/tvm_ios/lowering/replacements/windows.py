# SPDX-License-Identifier: Apache-2.0
"""Kernels of different sizes placed in one that holds them all, zero elsewhere.

A kernel may only be padded where that moves no tap: with ``p`` the padding in front and ``d`` the
dilation, kernel ``i`` sits at offset ``(max(p) - p_i) / d`` of the enlarged one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...graph.operators import Operator
from ...ops.window import Window
from ...relax_ir.constants import constant_array
from ..convolution import conv_geometry
from ..no_rule import NoRule


@dataclass(frozen=True)
class Windows:
    """How a kernel slides over height and width."""

    rows: Window
    columns: Window

    @property
    def alignment(self) -> Hashable:
        """Equal for windows that one window can hold, each at its place."""
        return tuple(
            (w.size, w.out, w.stride, w.dilation, w.before % w.dilation)
            for w in (self.rows, self.columns)
        )

    @property
    def taps(self) -> int:
        return self.rows.kernel * self.columns.kernel

    def hold(self, weights: np.ndarray, of: Windows) -> np.ndarray:
        """Embed weights [K, C, R, S] of smaller windows in a kernel of these."""
        row, column = _offset(of.rows, self.rows), _offset(of.columns, self.columns)
        shape = (*weights.shape[:2], self.rows.kernel, self.columns.kernel)
        enlarged = np.zeros(shape, weights.dtype)
        height, width = weights.shape[2:]
        enlarged[:, :, row : row + height, column : column + width] = weights
        return enlarged


def enlarge(windows: Sequence[Windows]) -> Windows:
    """Return the smallest windows that hold all of ``windows``, which have one alignment."""
    assert len({w.alignment for w in windows}) == 1, "no tap may be moved"
    rows, columns = [w.rows for w in windows], [w.columns for w in windows]
    return Windows(_enlarge(rows), _enlarge(columns))


def _enlarge(windows: Sequence[Window]) -> Window:
    enlarged = replace(windows[0], before=max(w.before for w in windows))
    kernel = max(_offset(w, enlarged) + w.kernel for w in windows)
    return replace(enlarged, kernel=kernel)


def _offset(window: Window, enlarged: Window) -> int:
    """Return where the window's first tap lies in the enlarged one."""
    return (enlarged.before - window.before) // window.dilation


def held_windows(op: Operator) -> Windows:
    """Return the windows of a convolution that has some."""
    windows = windows_of(op)
    assert windows is not None, "only convolutions of one group and of known weights are replaced"
    return windows


def windows_of(op: Operator) -> Windows | None:
    """Return the windows of a convolution of one group with constant weights; None for others."""
    if op.kind != "conv2d" or constant_array(op.call.args[1]) is None:
        return None
    try:
        geometry = conv_geometry(op.anchor)
    except NoRule:
        return None
    return Windows(geometry.rows, geometry.columns) if geometry.groups == 1 else None
