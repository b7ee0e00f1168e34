# SPDX-License-Identifier: Apache-2.0
"""The opening of a library and of what it needs to run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from .cuda import describe, load_cuda

_POOLED_ALLOCATOR = 2


class LibraryError(ValueError):
    """A file that is not a library of this release of tvm-ios."""


def open_library(path: str, directories: Sequence[Path]) -> tvm_ffi.Module:
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


def check_device(arch: str, device_id: int) -> None:
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


def load_runtime() -> list[Path]:
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
