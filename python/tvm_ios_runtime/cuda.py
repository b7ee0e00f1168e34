# SPDX-License-Identifier: Apache-2.0
"""What a library for a CUDA device needs besides TVM's runtime, loaded only where it is needed."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from .library import load_library, nvidia_directories

_DRIVER, _CUDART = "libcuda.so.1", "libcudart.so.13"
_FAILURE = re.compile(r"\s*CUDA(Launch| Runtime)? ?Error")
_MEMORY = re.compile(r"out.of.memory|MemoryAllocation", re.IGNORECASE)
_TAKEN = re.compile(r"\(46\)|Devices?_?Unavailable", re.IGNORECASE)
_SOURCE = re.compile(r"\s*// CUDA Source.*", re.DOTALL)  # of the kernel, hundreds of lines


class DeviceFailure(RuntimeError):
    """A CUDA device that does not do what it should, with what to do about it."""


@contextmanager
def explained(device_id: int) -> Iterator[None]:
    """What TVM says of a failing device, in one sentence, within a ``with``.

    Raises
    ------
    DeviceFailure
    """
    try:
        yield
    except Exception as error:  # TVM has several types for it
        text = str(error)
        if not _FAILURE.match(text):
            raise
        if _MEMORY.search(text):
            raise DeviceFailure(
                f"CUDA device {device_id} has too little free memory; end what else uses it, as "
                "nvidia-smi lists it, or take a smaller batch."
            ) from error
        if _TAKEN.search(text):
            raise DeviceFailure(
                f"CUDA device {device_id} is another process's alone; end that, as nvidia-smi "
                "lists it, or choose another device."
            ) from error
        reason = " ".join(_SOURCE.sub("", text).split())
        raise DeviceFailure(
            f"CUDA device {device_id} has failed ({reason}); start again, as it stays so in this "
            "process."
        ) from error


def find_cuda_runtime() -> None:
    """Load CUDA's runtime, if it is installed, for TVM's library to find it.

    PyPI's ``nvidia-cuda-runtime`` lies where no loader looks for it; one that a loader finds is
    preferred.
    """
    places = (place / "cu13" / "lib" / _CUDART for place in nvidia_directories())
    for name in (_CUDART, *map(str, places)):
        with suppress(OSError):  # that there is none is told when it is needed
            ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            return


def load_cuda(directories: Sequence[Path]) -> None:
    """Load TVM's CUDA runtime, and the library that runs stages.

    Parameters
    ----------
    directories : sequence of Path
        Where TVM's libraries may be.

    Raises
    ------
    ImportError
        When one of them cannot be loaded.
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
    """What a device is, see ``src/runtime/cuda/describe.h``; and its ``arch``, as ``sm_90``.

    Raises
    ------
    RuntimeError
        When there is no driver, no such device, or a driver that is too old.
    """
    lines = tvm_ffi.get_global_func("tvm_ios.runtime.cuda.Describe")(device_id).splitlines()
    fields = dict(line.split(": ", 1) for line in lines)
    return {**fields, "arch": "sm_" + fields["capability"].replace(".", "")}


def _lacking() -> str:
    """What TVM's runtime for CUDA misses, and what to do."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:
        return f"there is no NVIDIA driver ({_DRIVER}); run where there is a GPU"
    return f"it needs {_CUDART}; pip install nvidia-cuda-runtime"
