# SPDX-License-Identifier: Apache-2.0
"""Outputs whose lengths are counted while the network runs.

The function of a library returns such an output in its largest length, and behind all outputs the
length of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .tensor_info import TensorInfo


class Lengths:
    """Which outputs of a library have lengths that are counted.

    Parameters
    ----------
    metadata : mapping of str to value
        That of the library.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._lengths = [tuple(length) for length in metadata.get("lengths", ())]
        self._visible = len(metadata["outputs"]) - len(self._lengths)

    def __bool__(self) -> bool:
        return bool(self._lengths)

    def described(self, outputs: Sequence[TensorInfo]) -> tuple[TensorInfo, ...]:
        """Return the outputs as a caller sees them."""
        result = list(outputs[: self._visible])
        for output, axis, _ in self._lengths:
            shape = list(result[output].shape)
            shape[axis] = None
            result[output] = replace(result[output], shape=tuple(shape))
        return tuple(result)

    def cut(self, results: list[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs of a call in their lengths."""
        visible = results[: self._visible]
        for output, axis, place in self._lengths:
            kept = (slice(None),) * axis + (slice(int(results[place])),)
            visible[output] = np.ascontiguousarray(visible[output][kept])
        return visible
