# SPDX-License-Identifier: Apache-2.0
"""Compiled networks as functions of arrays."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from . import forks
from .arrays import ALIGNMENT, check_outputs, empty_for
from .bits import tensor_dtype
from .bound import BoundCall, exclusive
from .calls import Call, prepare_calls
from .captures import CAPTURE_LOCK
from .cores import CORES
from .cuda import DeviceFailure, explained
from .dispatch import Dispatcher
from .elf import is_cut_off
from .helpers import use_helpers
from .lengths import Lengths
from .memory import DeviceMemory, cuda_device
from .opening import LibraryError, check_device, load_runtime, open_library, open_machine
from .session import Session, Sessions, to_array
from .streams import stream_lock
from .tensor_info import TensorInfo, check_dimensions
from .threads import Runner

METADATA = "tvm_ios_metadata"
"""The function of a library that returns its metadata as JSON."""
FORMAT, VERSION = "tvm_ios.module", 1

_COUNTED = (
    "The lengths of the model's outputs are known after a run, so that no arrays can be given for "
    "them; call it without."
)
_CPU, _CUDA = 1, 2
_DEFAULT_STREAM = 0


class Model:
    """A compiled network that :func:`load` loaded.

    Any number of threads may call it at the same time. Where the library needs a virtual machine,
    each thread has one of its own, which is created at its first call. On a CPU, a run uses the
    number of threads that the library was compiled for, and waits until other runs in this process
    leave as many cores free.
    The process may be forked before the first call, or for a GPU before the model is loaded.

    Attributes
    ----------
    inputs, outputs : tuple of TensorInfo
        The inputs and outputs, in order; a dimension in which the library's signatures differ is
        None.
    signatures : tuple of Signature
        The shapes that the library was compiled for.
    any_batch : bool
        Whether the first dimension of all inputs is a batch, which may be of any size and whose
        rows do not depend on each other.
    metadata : dict
        The metadata of the library.
    """

    def __init__(
        self,
        sessions: Sessions,
        new_sessions: Callable[[], Sessions],
        dispatcher: Dispatcher,
        metadata: Mapping[str, Any],
        calls: Sequence[Call | None],
        helped: bool,
    ) -> None:
        self.metadata, self._calls = dict(metadata), calls
        self._dispatcher, self.signatures = dispatcher, dispatcher.signatures
        self.any_batch = dispatcher.any_batch
        self._lengths = Lengths(metadata)
        self.inputs, outputs = _described(metadata)
        self.outputs = self._lengths.described(outputs)
        self._workers: int | None = metadata.get("workers")  # None if unknown
        self._helped = helped
        self._new_sessions, self._threads = new_sessions, threading.local()
        self._threads.sessions = sessions
        self._owner = None if sessions.memory is None else os.getpid()  # of the GPU context

    def __call__(self, *arrays: Any, out: Sequence[np.ndarray] | None = None) -> list[Any]:
        """Run the network once.

        Parameters
        ----------
        *arrays : numpy.ndarray, or tensor on the model's GPU
            The inputs, in order. Arrays that :func:`empty` made are read in place, others are
            copied. If one lies on a GPU, all must: see :meth:`on_device`.
        out : sequence of numpy.ndarray, optional
            Arrays that the outputs are written to, of their types and shapes: contiguous, and apart
            from the inputs and from each other. By default the outputs are new arrays.

        Returns
        -------
        list of numpy.ndarray, or of tvm_ffi.Tensor
            The outputs, on the device that holds the inputs.

        Raises
        ------
        ValueError
            If an array has a type or shape that the library does not serve, or lies on another
            device; or if outputs cannot be written to ``out``.
        TypeError
            If ``out`` is no sequence of arrays.
        RuntimeError
            If this machine's CPU lacks an extension that the library needs, or its GPU fails.
        """
        for array in arrays:
            if type(array) is not np.ndarray:
                if out is None and any(cuda_device(array) is not None for array in arrays):
                    return self.on_device(arrays)
                arrays = self._on_host(arrays)
                break
        self._check_count(arrays)
        if out is not None:
            self._check_out(out)
        signature = 0 if len(self.signatures) == 1 else self._dispatcher.exact(arrays)
        if self._lengths:
            if signature is None:
                raise self._dispatcher.refusal(arrays)
            return self._lengths.cut(self._run(signature, arrays))
        if signature is not None:
            return self._run(signature, arrays, out)
        return self._kept(self._dispatcher.run(arrays, self._run), arrays, out)

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray] | None = None
    ) -> BoundCall:
        """Prepare runs that read their inputs from the same arrays, and write to the same ones.

        Parameters
        ----------
        inputs : sequence of numpy.ndarray
            The inputs, in order. Each run reads what they hold then.
        outputs : sequence of numpy.ndarray, optional
            As ``out`` of :meth:`__call__`; by default new arrays. Each run overwrites them.

        Raises
        ------
        ValueError, TypeError
            As :meth:`__call__`.
        """
        arrays = self._on_host(inputs)
        self._check_count(arrays)
        if self._lengths:
            raise ValueError(_COUNTED)
        if outputs is not None:
            self._check_out(outputs)
        signature = 0 if len(self.signatures) == 1 else self._dispatcher.exact(arrays)
        call = None if signature is None else self._calls[signature]
        if signature is None or call is None:
            written = self(*arrays) if outputs is None else outputs
            return BoundCall(arrays, written, exclusive(lambda: self(*arrays, out=written)))
        if outputs is None:
            outputs = list(map(empty_for, call.outputs_for(arrays)))
        run = call.bind(arrays, outputs)
        return BoundCall(arrays, outputs, lambda: self._on_workers(run))

    def _run(
        self, signature: int, arrays: Sequence[np.ndarray], out: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Run the function of a signature, on inputs of its shapes."""
        call = self._calls[signature]
        if call is None:
            return self._kept(self._run_machine(signature, arrays), arrays, out)
        if out is None:
            return call(arrays, self._on_workers)
        call.into(arrays, out, self._on_workers)
        return list(out)

    def _run_machine(self, signature: int, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run the function of a signature by this thread's virtual machine."""
        session = self._session(signature)
        inputs = self.signatures[signature].inputs
        for info, array in zip(inputs, arrays, strict=True):
            info.check(array)
        check_dimensions(inputs, arrays)
        dtypes = [info.dtype for info in self.signatures[signature].outputs]
        memory = session.memory
        if memory is None:
            computed: list[np.ndarray] = self._on_workers(
                lambda: session.run_on_host(arrays, dtypes)
            )
            return computed
        tensors = [session.tensor(i, array) for i, array in enumerate(arrays)]
        with memory.running(_DEFAULT_STREAM):
            tensors = [memory.write(i, tensor) for i, tensor in enumerate(tensors)]
            return list(map(to_array, map(memory.read, session.run(tensors)), dtypes))

    def on_device(
        self, tensors: Sequence[Any], keep: Callable[[tvm_ffi.Tensor], Any] = lambda tensor: tensor
    ) -> list[Any]:
        """Run the network once on tensors on its GPU, without waiting for the result.

        The run is enqueued on TVM's current stream of this thread (``tvm_ffi.use_raw_stream``).
        That stream must exist as long as models run on other streams. The first run captures a
        graph; meanwhile no other library may use the GPU.

        Parameters
        ----------
        tensors : sequence
            The inputs in order, from any library with DLPack; contiguous and aligned to 64 bytes.
            They are read in place.
        keep : callable, optional
            A function that maps each output to the value to return. Outputs are in TVM's memory,
            which is not aware of streams: once an output is freed, a run on another stream may
            overwrite it, even if this stream still reads it. No run does so before ``keep``
            returns.

        Raises
        ------
        ValueError, RuntimeError
            As :meth:`__call__`.
        """
        session = self._session(0)
        memory = session.memory
        if memory is None:
            raise ValueError("The model runs on the CPU; move its inputs there.")
        self._check_count(tensors)
        borrowed = [self._borrow(memory, i, tensor) for i, tensor in enumerate(tensors)]
        with memory.running(memory.stream):
            return list(map(keep, session.run(borrowed)))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the network once, with inputs and outputs by name.

        Raises
        ------
        ValueError, RuntimeError
            As :meth:`__call__`; also if a name is missing or unknown.
        TypeError
            If ``inputs`` is no mapping.
        """
        if not isinstance(inputs, Mapping):
            raise TypeError("run takes arrays by name; call the model to give them in order.")
        if set(inputs) != {info.name for info in self.inputs}:
            wanted = ", ".join(map(str, self.inputs))
            raise ValueError(f"The model takes {wanted}; got {', '.join(inputs) or 'nothing'}.")
        results = self(*(inputs[info.name] for info in self.inputs))
        return {info.name: array for info, array in zip(self.outputs, results, strict=True)}

    def _kept(
        self,
        results: list[np.ndarray],
        arrays: Sequence[np.ndarray],
        out: Sequence[np.ndarray] | None,
    ) -> list[np.ndarray]:
        """Return results, in the arrays ``out`` if these are given."""
        if out is None:
            return results
        infos = [
            TensorInfo(info.name, result.shape, str(result.dtype))
            for info, result in zip(self.outputs, results, strict=True)
        ]
        check_outputs(infos, out, arrays)
        for array, result in zip(out, results, strict=True):
            np.copyto(array, result)
        return list(out)

    def _session(self, signature: int) -> Session:
        """Return this thread's session of a signature.

        Raises
        ------
        DeviceFailure
            If the model runs on a GPU and the process was forked after it was loaded.
        ForkError
            If it runs on several threads and the process was forked after a model had run.
        """
        if self._owner not in (None, os.getpid()):
            raise DeviceFailure(
                "A model on a GPU cannot be used in a process that was forked after it was loaded; "
                "fork before anything uses the GPU, or start processes by 'spawn'."
            )
        if self._owner is None and self._workers != 1:
            forks.check_threads()
        if not hasattr(self._threads, "sessions"):
            self._threads.sessions = self._new_sessions()
        sessions: Sessions = self._threads.sessions
        return sessions[signature]

    def _on_workers(self, run: Callable[[], Any]) -> Any:
        """Run on the CPU, on cores that no other run uses.

        Raises
        ------
        ForkError
            As :meth:`_session`.
        """
        if self._helped or self._workers in (None, 1):
            return run()
        forks.check_threads()
        if not hasattr(self._threads, "runner"):
            self._threads.runner = Runner(self._workers)
        runner: Runner = self._threads.runner
        return CORES.run(self._workers, lambda: runner(run))

    def _on_host(self, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """Return inputs as arrays, none of which may lie on a GPU."""
        if any(cuda_device(array) is not None for array in arrays):
            raise ValueError("The outputs are on the host, and an input is not; move it there.")
        return tuple(map(np.asarray, arrays))

    def _check_out(self, out: Sequence[np.ndarray]) -> None:
        if self._lengths:
            raise ValueError(_COUNTED)
        if isinstance(out, np.ndarray) or not all(isinstance(a, np.ndarray) for a in out):
            raise TypeError("Outputs are written to a sequence of NumPy's arrays.")
        if len(out) != len(self.outputs):
            wanted = ", ".join(map(str, self.outputs))
            raise ValueError(f"The model returns {wanted}; got {len(out)} arrays.")

    def _check_count(self, arrays: Sequence[Any]) -> None:
        if len(arrays) != len(self.inputs):
            wanted = ", ".join(map(str, self.inputs))
            raise ValueError(f"The model takes {wanted}; got {len(arrays)} arrays.")

    def _borrow(self, memory: DeviceMemory, index: int, value: Any) -> tvm_ffi.Tensor:
        """Return a view of an input, which must lie on the model's device."""
        info, number = self.inputs[index], cuda_device(value)
        if number != memory.device_id:
            found = "the host" if number is None else f"CUDA device {number}"
            raise ValueError(
                f"The model runs on CUDA device {memory.device_id}, but {info.name} is on {found}; "
                "move it."
            )
        tensor = memory.borrow(value)
        replace(info, dtype=tensor_dtype(info.dtype)).check(tensor)
        if not tensor.is_contiguous() or tensor.data_ptr() % ALIGNMENT:
            raise ValueError(
                f"{info.name} is not contiguous, or not aligned to {ALIGNMENT} bytes; copy it."
            )
        return tensor


def load(path: str | os.PathLike[str], device_id: int = 0) -> Model:
    """Load a library that ``tvm-ios compile`` wrote.

    Parameters
    ----------
    path : path
        The shared library.
    device_id : int
        The GPU to run on if the library was compiled for one.

    Returns
    -------
    Model

    Raises
    ------
    LibraryError
        If the file is not such a library, or was compiled for a GPU that this machine does not
        have.
    ImportError
        If TVM's runtime, or for a GPU CUDA's, is not installed.
    """
    if not Path(path).is_file():
        raise LibraryError(f"There is no compiled model {path}; make one with tvm-ios compile.")
    directories = load_runtime()
    try:
        if is_cut_off(path):
            raise ValueError("its end is missing")
        library = open_library(os.path.abspath(path), directories)
        machine = open_machine(library, [(_CPU, 0)])
        metadata = json.loads(machine[METADATA]())
        if (metadata["format"], metadata["version"]) != (FORMAT, VERSION):
            raise ValueError("another version")
        target, dispatcher = json.loads(metadata["target"]), Dispatcher.from_metadata(metadata)
        _described(metadata)
        calls = prepare_calls(library, dispatcher.signatures, metadata)
        helped = use_helpers(library)
    except ImportError:
        raise
    except Exception as error:  # the loader raises various types
        raise LibraryError(
            f"{path} is not a model that this release of tvm-ios compiled; compile it again."
        ) from error
    functions = [signature.function for signature in dispatcher.signatures]
    if target["kind"] != "cuda":

        def on_cpu() -> Sessions:
            return Sessions(open_machine(library, [(_CPU, 0)]), functions)

        return Model(Sessions(machine, functions), on_cpu, dispatcher, metadata, calls, helped)
    check_device(target["arch"], device_id)

    def on_gpu() -> Sessions:
        with (
            CAPTURE_LOCK.shared(),
            explained(device_id),
            stream_lock(device_id).on(_DEFAULT_STREAM),
        ):
            machine = open_machine(library, [(_CUDA, device_id), (_CPU, 0)])
        return Sessions(machine, functions, DeviceMemory(device_id))

    return Model(on_gpu(), on_gpu, dispatcher, metadata, calls, helped)


def _described(
    metadata: Mapping[str, Any],
) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """Return the inputs and the outputs that the metadata describes."""
    inputs, outputs = (
        tuple(map(TensorInfo.from_metadata, metadata[key])) for key in ("inputs", "outputs")
    )
    return inputs, outputs
