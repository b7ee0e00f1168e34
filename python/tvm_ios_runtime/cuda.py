# SPDX-License-Identifier: Apache-2.0
"""Support for CUDA libraries beyond TVM's runtime, loaded only if it is needed."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from tvm_ios_env.nvidia import nvidia_directories

from .library import load_library

_DRIVER, _CUDART = "libcuda.so.1", "libcudart.so.13"
_FAILURE = re.compile(r"\s*CUDA(Launch| Runtime)? ?Error")
_MEMORY = re.compile(r"out.of.memory|MemoryAllocation", re.IGNORECASE)
_TAKEN = re.compile(r"\(46\)|Devices?_?Unavailable", re.IGNORECASE)
_SOURCE = re.compile(r"\s*// CUDA Source.*", re.DOTALL)  # the kernel's source, hundreds of lines


class DeviceFailure(RuntimeError):
    """A failure of a CUDA device; the message says what to do."""


@contextmanager
def explained(device_id: int) -> Iterator[None]:
    """Translate TVM's errors of a failing device into one sentence inside the ``with`` block.

    Raises
    ------
    DeviceFailure
        If the device fails.
    """
    try:
        yield
    except Exception as error:  # TVM raises several types
        text = str(error)
        if not _FAILURE.match(text):
            raise
        if _MEMORY.search(text):
            raise DeviceFailure(
                f"CUDA device {device_id} has too little free memory; end other processes, which "
                "nvidia-smi lists, or use a smaller batch."
            ) from error
        if _TAKEN.search(text):
            raise DeviceFailure(
                f"Another process has CUDA device {device_id} to itself; end it (see nvidia-smi) "
                "or choose another device."
            ) from error
        reason = " ".join(_SOURCE.sub("", text).split())
        raise DeviceFailure(
            f"CUDA device {device_id} has failed ({reason}) and cannot be used again in this "
            "process; restart the program."
        ) from error


def find_cuda_runtime() -> None:
    """Load CUDA's runtime, if it is installed, so that TVM's library finds it.

    The loader does not search the directory of PyPI's ``nvidia-cuda-runtime``. A runtime that the
    loader finds is preferred.
    """
    places = (place / "cu13" / "lib" / _CUDART for place in nvidia_directories())
    for name in (_CUDART, *map(str, places)):
        with suppress(OSError):  # a missing runtime is reported when it is needed
            ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            return


def load_cuda(directories: Sequence[Path]) -> None:
    """Load TVM's CUDA runtime, and the library that runs stages.

    Parameters
    ----------
    directories : sequence of Path
        Directories to search for TVM's libraries.

    Raises
    ------
    ImportError
        If a library cannot be loaded.
    """
    find_cuda_runtime()
    try:
        load_lib_ctypes(
            "apache-tvm", "tvm_runtime_cuda", "RTLD_LOCAL", extra_lib_paths=list(directories)
        )
    except (OSError, RuntimeError) as error:
        raise ImportError(f"TVM's runtime for CUDA cannot be loaded: {_lacking()}.") from error
    load_library()


def describe(device_id: int) -> dict[str, str]:
    """Return the properties of a device (see ``src/runtime/cuda/describe.h``) and its ``arch``.

    Raises
    ------
    RuntimeError
        If there is no driver, no such device, or the driver is too old.
    """
    lines = tvm_ffi.get_global_func("tvm_ios.runtime.cuda.Describe")(device_id).splitlines()
    fields = dict(line.split(": ", 1) for line in lines)
    return {**fields, "arch": "sm_" + fields["capability"].replace(".", "")}


def _lacking() -> str:
    """Return what TVM's runtime for CUDA lacks, and what to do."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:
        return f"there is no NVIDIA driver ({_DRIVER}); run where there is a GPU"
    return f"it needs {_CUDART}; pip install nvidia-cuda-runtime"
