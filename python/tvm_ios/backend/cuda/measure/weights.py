# SPDX-License-Identifier: Apache-2.0
"""Weights of timed stages, where a CUDA device finds them when the whole network runs.

A network whose weights fit the second cache leaves them there from one call to the next. In a
larger one each stage reads its weights from memory, as all others were read since. Runs of one
stage in a graph would find them in the cache from the second run on; so each has its own place.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tvm
import tvm_ffi

from ....tir.tensor import TensorSpec
from ...shared.cold import ColdWeights, arena_bytes
from ...shared.implementation import LoweredGraph, constants
from ..kernels.kernel import CudaKernel

DTYPES = ("float32", "float16", "bfloat16")

_BLOCK = 1 << 18  # random numbers that an arena is filled with, again and again


def weights_from(lowered: LoweredGraph[CudaKernel]) -> str:
    """Where timed stages read their weights from: it decides how long they take."""
    fit = arena_bytes(constants(lowered, DTYPES)) <= lowered.preferences.l2_bytes
    return "second cache" if fit else "memory"


class WeightsInMemory:
    """Hands out tensors of an arena, one behind another, round and round.

    Parameters
    ----------
    specs : iterable of TensorSpec
        All weights of the network.
    device : tvm.runtime.Device
    random : numpy.random.Generator
        Of what the arena holds.
    """

    def __init__(
        self, specs: Iterable[TensorSpec], device: tvm.runtime.Device, random: np.random.Generator
    ) -> None:
        self._device, self._random = device, random
        self._places = ColdWeights(specs, self._allocate)

    def take(self, spec: TensorSpec) -> tvm.runtime.Tensor:
        """The next place of a tensor."""
        offset = self._places.take(spec).offset
        part = tvm_ffi.get_global_func("tvm_ios.runtime.TensorPart")
        return part(self._arena, offset, tvm_ffi.Shape(spec.shape), tvm_ffi.dtype(spec.dtype))

    def _allocate(self, num_bytes: int) -> int:
        block = self._random.standard_normal(_BLOCK, "float32")
        values = np.resize(block, -(-num_bytes // block.itemsize))
        self._arena = tvm.runtime.tensor(values, self._device)
        return 0  # there is one; whoever has a place in an earlier one keeps that
