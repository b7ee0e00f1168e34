# SPDX-License-Identifier: Apache-2.0
"""The location of the C++ library of tvm-ios, and how to load it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import tvm_ffi  # loads libtvm_ffi.so, which libtvm_ios.so is bound to
from tvm_ffi.libinfo import load_lib_module

from tvm_ios_env.nvidia import nvidia_directories

_NAME = "libtvm_ios.so"


def load_library() -> tvm_ffi.Module:
    """Load ``libtvm_ios.so``.

    If ``TVM_IOS_LIBRARY_PATH`` is set, only that directory is searched. Otherwise the installed
    distribution's files, the package, and ``build/lib`` of the source tree are. The library is told
    the path of cuDNN, which it loads on first use.

    Raises
    ------
    ImportError
        If the library is not found or cannot be loaded.
    """
    override = os.environ.get("TVM_IOS_LIBRARY_PATH")
    try:
        if override:
            library = tvm_ffi.load_module(Path(override) / _NAME)
        else:
            library = load_lib_module("tvm-ios", "tvm_ios", extra_lib_paths=_directories())
    except RuntimeError as error:
        where = f"in {override}, which TVM_IOS_LIBRARY_PATH names" if override else "installed"
        raise ImportError(
            f"{_NAME} is not {where}, or cannot be loaded; install tvm-ios again, in a checkout "
            "with: pip install ."
        ) from error
    cudnn = find_cudnn()
    if cudnn is not None:
        tvm_ffi.get_global_func("tvm_ios.runtime.cuda.UseCudnn")(str(cudnn))
    return library


def library_path() -> Path:
    """Return the file that :func:`load_library` loads, for an RPC server to load."""
    override = os.environ.get("TVM_IOS_LIBRARY_PATH")
    directories = [Path(override)] if override else _directories()
    return next(d / _NAME for d in directories if (d / _NAME).is_file())


def find_cudnn() -> Path | None:
    """Return cuDNN as PyPI installs it, outside the loader's search path; None if not installed."""
    libraries = (place / "cudnn" / "lib" / "libcudnn.so.9" for place in nvidia_directories())
    return next((library for library in libraries if library.is_file()), None)


def _directories() -> list[Path]:
    """Return the directories to search for the library."""
    package = find_spec("tvm_ios")
    places = package.submodule_search_locations if package else None
    # An editable install has two: the sources and the build output.
    directories = [Path(place) / "lib" for place in places or ()]
    return [*directories, Path(__file__).resolve().parents[2] / "build" / "lib"]
