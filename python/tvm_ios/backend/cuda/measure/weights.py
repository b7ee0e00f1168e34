# SPDX-License-Identifier: Apache-2.0
"""Weights of timed stages, at the memory level at which the whole network finds them.

If a network's weights fit into L2, they stay there from one call to the next. In a larger network,
each stage reads its weights from memory, because all others were read since. Repeated runs of one
stage in a graph would find them in L2 from the second run on, so each run has a copy of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tvm
import tvm_ffi

from ....tir.tensor import TensorSpec
from ...shared.cold import ColdWeights, arena_bytes
from ...shared.implementation import constants
from ..rules.config import CudaLoweredGraph

DTYPES = ("float32", "float16", "bfloat16")

_BLOCK = 1 << 18  # random numbers, repeated to fill an arena


def weights_from(lowered: CudaLoweredGraph) -> str:
    """Return the memory level that timed stages read their weights from; latencies depend on it."""
    fit = arena_bytes(constants(lowered, DTYPES)) <= lowered.config.l2_bytes
    return "L2" if fit else "memory"


class WeightsInMemory:
    """An arena that hands out tensors one behind another, cyclically.

    Parameters
    ----------
    specs : iterable of TensorSpec
        All weights of the network.
    device : tvm.runtime.Device
        The device.
    random : numpy.random.Generator
        Generates the arena's contents.
    """

    def __init__(
        self, specs: Iterable[TensorSpec], device: tvm.runtime.Device, random: np.random.Generator
    ) -> None:
        self._device, self._random = device, random
        self._places = ColdWeights(specs, self._allocate)

    def take(self, spec: TensorSpec) -> tvm.runtime.Tensor:
        """Return the next place of a tensor."""
        offset = self._places.take(spec).offset
        part = tvm_ffi.get_global_func("tvm_ios.runtime.TensorPart")
        return part(self._arena, offset, tvm_ffi.Shape(spec.shape), tvm_ffi.dtype(spec.dtype))

    def _allocate(self, num_bytes: int) -> int:
        block = self._random.standard_normal(_BLOCK, "float32")
        values = np.resize(block, -(-num_bytes // block.itemsize))
        self._arena = tvm.runtime.tensor(values, self._device)
        return 0  # the only arena; tensors in earlier ones keep those alive
