# SPDX-License-Identifier: Apache-2.0
"""Calls of a function that takes any sizes.

What a call needs for some shapes, the outputs' sizes and the workspace, is found out when the
shapes are new, and kept for the last ones.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm_ffi

from .open_sizes import size_at
from .prepared import OnWorkers, PreparedCall
from .signatures import Signature
from .tensor_info import TensorInfo, check_dimensions

_KEPT = 8  # shapes, each of which has a workspace
_LARGEST = (1 << 31) - 1  # elements of a tensor
_MOST_BYTES = 1 << 47  # of a workspace; the address space of a process

Shapes = tuple[tuple[int, ...], ...]


class OpenCalls:
    """A function that any number of threads may call at the same time, with inputs of any sizes.

    It has the methods of :class:`.PreparedCall`.

    Parameters
    ----------
    driver : tvm_ffi.Function
    signature : Signature
    described : mapping
        What the metadata says of the driver: its ``parameters``, where the ``dimensions`` are found
        in the inputs, the sizes of the ``outputs``, and what is ``required`` of the dimensions.
    """

    def __init__(
        self, driver: tvm_ffi.Function, signature: Signature, described: Mapping[str, Any]
    ) -> None:
        self._driver, self._signature = driver, signature
        self._parameters = described["parameters"]
        self._places: Mapping[str, tuple[int, int]] = described["dimensions"]
        self._sizes, self._required = described["outputs"], described["required"]
        self._lock = threading.Lock()
        self._known: OrderedDict[Shapes, PreparedCall] = OrderedDict()

    def __call__(self, arrays: Sequence[np.ndarray], on_workers: OnWorkers) -> list[np.ndarray]:
        return self._of(arrays)(arrays, on_workers)

    def into(
        self, arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray], on_workers: OnWorkers
    ) -> None:
        self._of(arrays).into(arrays, outputs, on_workers)

    def outputs_for(self, arrays: Sequence[np.ndarray]) -> tuple[TensorInfo, ...]:
        return self._of(arrays).outputs_for(arrays)

    def bind(
        self, arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[], None]:
        return self._of(arrays).bind(arrays, outputs)

    def _of(self, arrays: Sequence[np.ndarray]) -> PreparedCall:
        """Return the call for the shapes of inputs.

        Raises
        ------
        ValueError
            If an input has another type or rank, dimensions of one name differ, or sizes are
            refused.
        """
        shapes = tuple(array.shape for array in arrays)
        with self._lock:
            call = self._known.get(shapes)
            if call is not None:
                self._known.move_to_end(shapes)
                return call
        call = self._prepared(arrays, shapes)
        with self._lock:
            self._known[shapes] = call
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return call

    def _prepared(self, arrays: Sequence[np.ndarray], shapes: Shapes) -> PreparedCall:
        inputs = self._signature.inputs
        for info, array in zip(inputs, arrays, strict=True):
            info.check(array)
        check_dimensions(inputs, arrays)
        dimensions = {name: shapes[i][axis] for name, (i, axis) in self._places.items()}
        for condition, sentence in self._required:
            if not size_at(condition, dimensions):
                raise ValueError(sentence)
        outputs = [
            _of_shape(info, tuple(size_at(size, dimensions) for size in sizes))
            for info, sizes in zip(self._signature.outputs, self._sizes, strict=True)
        ]
        for info in outputs:
            if math.prod(size or 0 for size in info.shape) > _LARGEST:
                raise ValueError(f"The output {info} has more than {_LARGEST} elements.")
        taken = [_of_shape(info, shape) for info, shape in zip(inputs, shapes, strict=True)]
        signature = replace(self._signature, inputs=tuple(taken), outputs=tuple(outputs))
        parameters = [
            (kind, number if kind in ("input", "output") else size_at(number, dimensions))
            for kind, number in self._parameters
        ]
        if any(kind == "workspace" and size > _MOST_BYTES for kind, size in parameters):
            raise ValueError("The call needs more memory than any machine has; give smaller sizes.")
        return PreparedCall(self._driver, signature, parameters)


def _of_shape(info: TensorInfo, shape: tuple[int, ...]) -> TensorInfo:
    return replace(info, shape=shape, dimensions=())
