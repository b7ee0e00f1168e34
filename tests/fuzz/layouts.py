# SPDX-License-Identifier: Apache-2.0
"""How a network's inputs lie in memory."""

from __future__ import annotations

import numpy as np


def laid_out(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The same numbers as they may lie in a caller's memory."""
    layout = random.integers(0, 6)
    if layout == 0 or not array.ndim:
        return array
    if layout == 1:  # every other one of each row
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        view = wide[..., ::2]
    elif layout == 2:  # backwards
        view = np.empty(array.shape, array.dtype)[..., ::-1]
    elif layout == 3:  # column-major
        view = np.empty(array.shape, array.dtype, order="F")
    elif layout == 4:  # at an odd address
        flat = np.empty(array.nbytes + 1, "uint8")
        view = flat[1:].view(array.dtype).reshape(array.shape)
    else:  # not to be written to
        view = array.copy()
        view.flags.writeable = False
        return view
    view[...] = array
    return view
