# SPDX-License-Identifier: Apache-2.0
"""Calls of a library's functions on a CPU without a virtual machine.

The metadata of a signature names a driver if the function does nothing but call it. C++ checks the
tensors, allocates the outputs and calls the driver (:file:`src/runtime/prepared_call.h`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import tvm_ffi

from .arrays import check_outputs, exported, readable, to_array
from .bits import BITS, numpy_dtype, tensor_dtype
from .signatures import Signature
from .tensor_info import TensorInfo

OnWorkers = Callable[[Callable[[], Any]], Any]
"""Calls a function where it may use a model's workers."""


class PreparedCall:
    """A function of a library that any number of threads may call at the same time.

    Parameters
    ----------
    driver : tvm_ffi.Function
    signature : Signature
    parameters : sequence of (str, int)
        What the driver's parameters are, as the metadata says.
    """

    def __init__(
        self, driver: tvm_ffi.Function, signature: Signature, parameters: Sequence[tuple[str, int]]
    ) -> None:
        self._inputs, self._outputs = signature.inputs, signature.outputs
        self._run, self._run_into, self._bind, self._run_bound = map(
            _function, ("RunPrepared", "RunPreparedInto", "BindPrepared", "RunBound")
        )
        self._call = _function("NewPreparedCall")(
            driver, *map(_specs, (self._inputs, self._outputs)), [tuple(p) for p in parameters]
        )
        self._single = len(self._outputs) == 1
        # Where threads wait for the interpreter's lock, each release of it may switch threads.
        self._item = tvm_ffi.get_global_func("ffi.ArrayGetItem")
        self._item.release_gil = False
        self._to_array = [_converter(info.dtype) for info in self._outputs]
        self._as_bits = any(info.dtype in BITS for info in (*self._inputs, *self._outputs))

    def __call__(self, arrays: Sequence[np.ndarray], on_workers: OnWorkers) -> list[np.ndarray]:
        """Run the function.

        Parameters
        ----------
        arrays : sequence of numpy.ndarray
            The inputs.
        on_workers : callable
            Runs the driver.

        Returns
        -------
        list of numpy.ndarray
            The outputs, each in memory of its own.

        Raises
        ------
        ValueError
            If an array has another type or shape.
        """
        run, call = self._run, self._call
        tensors = self._bits(arrays, ()) if self._as_bits else arrays
        try:
            result = on_workers(lambda: run(call, *tensors))
        except BufferError:  # of an array that NumPy does not export as it is
            given = self._readable(arrays)
            result = on_workers(lambda: run(call, *given))
        if self._single:
            return [self._to_array[0](result)]
        return [convert(self._item(result, i)) for i, convert in enumerate(self._to_array)]

    def into(
        self, arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray], on_workers: OnWorkers
    ) -> None:
        """Run the function, and write its outputs to arrays.

        Raises
        ------
        ValueError
            As :meth:`__call__`; also if an output is not contiguous, is read-only, or overlaps an
            input or another output.
        """
        run, call = self._run_into, self._call
        tensors = self._bits(arrays, outputs) if self._as_bits else [*arrays, *outputs]
        try:
            on_workers(lambda: run(call, *tensors))
        except BufferError:
            check_outputs(self._outputs, outputs, arrays)
            given = [*self._readable(arrays), *tensors[len(arrays) :]]
            on_workers(lambda: run(call, *given))

    def outputs_for(self, _arrays: Sequence[np.ndarray]) -> tuple[TensorInfo, ...]:
        """Return the outputs for some inputs."""
        return self._outputs

    def bind(
        self, arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[], None]:
        """Return what runs the function on these arrays; as :meth:`into` checks them."""
        check_outputs(self._outputs, outputs, arrays)
        given = [*self._readable(arrays, copies=False), *self._bits((), outputs)]
        bound, run = self._bind(self._call, *given), self._run_bound
        return lambda: run(bound)

    def _readable(self, arrays: Sequence[np.ndarray], *, copies: bool = True) -> list[Any]:
        return [
            readable(info, array, copies=copies)
            for info, array in zip(self._inputs, arrays, strict=True)
        ]

    def _bits(
        self, arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        return [
            *map(exported, self._inputs, arrays),
            *map(exported, self._outputs, outputs, repeat("returns")),
        ]


def _converter(dtype: str) -> Callable[[tvm_ffi.Tensor], np.ndarray]:
    """Return what makes an array of a type of a tensor."""
    if dtype not in BITS:
        return to_array
    view = numpy_dtype(dtype)
    return lambda bits: to_array(bits).view(view)


def _function(name: str) -> tvm_ffi.Function:
    return tvm_ffi.get_global_func(f"tvm_ios.runtime.{name}")


def _specs(infos: Sequence[TensorInfo]) -> list[tuple[str, tvm_ffi.dtype, tvm_ffi.Shape]]:
    return [
        (str(info), tvm_ffi.dtype(tensor_dtype(info.dtype)), tvm_ffi.Shape(info.shape))
        for info in infos
    ]
