# SPDX-License-Identifier: Apache-2.0
"""Compiled networks as functions of arrays."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from . import forks
from .captures import CAPTURE_LOCK
from .cores import CORES
from .cuda import DeviceFailure, describe, explained, load_cuda
from .dispatch import Dispatcher
from .elf import is_cut_off
from .memory import DeviceMemory, cuda_device
from .session import ALIGNMENT, Session, Sessions, to_array
from .streams import stream_lock
from .tensor_info import TensorInfo
from .threads import Runner

METADATA = "tvm_ios_metadata"
"""The function of a library that returns its metadata as JSON."""
FORMAT, VERSION = "tvm_ios.module", 1

_CPU, _CUDA, _POOLED_ALLOCATOR = 1, 2, 2
_DEFAULT_STREAM = 0


class LibraryError(ValueError):
    """A file that is not a library of this release of tvm-ios."""


class Model:
    """A compiled network that :func:`load` loaded.

    Any number of threads may call it at the same time. Each thread has a virtual machine of its
    own, which is created at its first call. On a CPU, a run uses the number of threads that the
    library was compiled for, and waits until other runs in this process leave as many cores free.
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
    ) -> None:
        self.metadata = dict(metadata)
        self._dispatcher, self.signatures = dispatcher, dispatcher.signatures
        self.any_batch = dispatcher.any_batch
        self.inputs, self.outputs = _described(metadata)
        self._workers: int | None = metadata.get("workers")  # None if unknown
        self._new_sessions, self._threads = new_sessions, threading.local()
        self._threads.sessions = sessions
        self._owner = None if sessions.memory is None else os.getpid()  # of the GPU context

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run the network once.

        Parameters
        ----------
        *arrays : numpy.ndarray, or tensor on the model's GPU
            The inputs, in order. Arrays that :func:`empty` made are read in place, others are
            copied. If one lies on a GPU, all must: see :meth:`on_device`.

        Returns
        -------
        list of numpy.ndarray, or of tvm_ffi.Tensor
            The outputs, on the device that holds the inputs.

        Raises
        ------
        ValueError
            If an array has a type or shape that the library does not serve, or lies on another
            device.
        RuntimeError
            If this machine's CPU lacks an extension that the library needs, or its GPU fails.
        """
        if any(cuda_device(array) is not None for array in arrays):
            return self.on_device(arrays)
        self._check_count(arrays)
        given = [np.asarray(array) for array in arrays]
        if len(self.signatures) == 1:
            return self._run(0, given)
        signature = self._dispatcher.exact(given)
        if signature is None:
            return self._dispatcher.run(given, self._run)
        return self._run(signature, given)

    def _run(self, signature: int, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run the function of a signature, on inputs of its shapes."""
        session = self._session(signature)
        infos = self.signatures[signature].inputs
        for info, array in zip(infos, arrays, strict=True):
            _check(info, array)
        tensors = [session.tensor(i, array) for i, array in enumerate(arrays)]
        memory = session.memory
        if memory is None:
            return [to_array(tensor) for tensor in self._on_workers(lambda: session.run(tensors))]
        with memory.running(_DEFAULT_STREAM):
            tensors = [memory.write(i, tensor) for i, tensor in enumerate(tensors)]
            return [to_array(memory.read(tensor)) for tensor in session.run(tensors)]

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

    def _on_workers(self, run: Callable[[], list[tvm_ffi.Tensor]]) -> list[tvm_ffi.Tensor]:
        """Run on the CPU, on cores that no other run uses."""
        if self._workers in (None, 1):
            return run()
        if not hasattr(self._threads, "runner"):
            self._threads.runner = Runner(self._workers)
        runner: Runner = self._threads.runner
        with CORES.acquire(self._workers):
            return runner(run)

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
        _check(info, tensor)
        if not tensor.is_contiguous() or tensor.data_ptr() % ALIGNMENT:
            raise ValueError(
                f"{info.name} is not contiguous, or not aligned to {ALIGNMENT} bytes; copy it."
            )
        return tensor


def _check(info: TensorInfo, array: np.ndarray | tvm_ffi.Tensor) -> None:
    if not info.fits(array):
        found = f"{array.dtype}{list(array.shape)}"
        raise ValueError(f"The model takes {info}; got {found}.")


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
    directories = _load_runtime()
    try:
        if is_cut_off(path):
            raise ValueError("its end is missing")
        library = _open(os.path.abspath(path), directories)
        machine = open_machine(library, [(_CPU, 0)])
        metadata = json.loads(machine[METADATA]())
        if (metadata["format"], metadata["version"]) != (FORMAT, VERSION):
            raise ValueError("another version")
        target, dispatcher = json.loads(metadata["target"]), Dispatcher.from_metadata(metadata)
        _described(metadata)
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

        return Model(Sessions(machine, functions), on_cpu, dispatcher, metadata)
    _check_device(target["arch"], device_id)

    def on_gpu() -> Sessions:
        with (
            CAPTURE_LOCK.shared(),
            explained(device_id),
            stream_lock(device_id).on(_DEFAULT_STREAM),
        ):
            machine = open_machine(library, [(_CUDA, device_id), (_CPU, 0)])
        return Sessions(machine, functions, DeviceMemory(device_id))

    return Model(on_gpu(), on_gpu, dispatcher, metadata)


def _described(
    metadata: Mapping[str, Any],
) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """Return the inputs and the outputs that the metadata describes."""
    inputs, outputs = (
        tuple(map(TensorInfo.from_metadata, metadata[key])) for key in ("inputs", "outputs")
    )
    return inputs, outputs


def _open(path: str, directories: Sequence[Path]) -> tvm_ffi.Module:
    """Load the library; load CUDA's runtime first if it needs that."""
    try:
        return tvm_ffi.load_module(path)
    except RuntimeError as error:
        if "load_from_bytes.cuda" not in str(error):
            raise
    load_cuda(directories)
    return tvm_ffi.load_module(path)


def open_machine(library: tvm_ffi.Module, devices: Sequence[tuple[int, int]]) -> tvm_ffi.Module:
    """Create a virtual machine on devices, given by kind and number."""
    machine = library["vm_load_executable"]()
    machine["vm_initialization"](*(n for d in devices for n in (*d, _POOLED_ALLOCATOR)))
    return machine


def _check_device(arch: str, device_id: int) -> None:
    """Raise LibraryError unless the device exists and has this architecture."""
    try:
        found = describe(device_id)["arch"]
    except Exception as error:
        reason = str(error).strip().splitlines()[-1]
        raise LibraryError(f"The model is for a GPU, and {reason}") from error
    if found != arch:
        raise LibraryError(
            f"The model is for a GPU of {arch}, but device {device_id} is {found}; compile it for "
            "that, or choose another device."
        )


def _load_runtime() -> list[Path]:
    """Load TVM's runtime library without importing its Python package.

    Return the directories that may contain it.
    """
    package = find_spec("tvm")
    places = package.submodule_search_locations if package else None
    if not places:
        raise ImportError("TVM's runtime library is not installed; pip install apache-tvm.")
    override = os.environ.get("TVM_LIBRARY_PATH")
    directories = [Path(place) / "lib" for place in places]
    if override:
        directories.insert(0, Path(override))
    load_lib_ctypes("apache-tvm", "tvm_runtime", "RTLD_GLOBAL", extra_lib_paths=directories)
    return directories
