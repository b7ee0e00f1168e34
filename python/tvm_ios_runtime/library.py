# SPDX-License-Identifier: Apache-2.0
"""Where the C++ library of tvm-ios is, and how it is loaded."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import tvm_ffi  # loads libtvm_ffi.so, which libtvm_ios.so is bound to
from tvm_ffi.libinfo import load_lib_module

_NAME = "libtvm_ios.so"


def load_library() -> tvm_ffi.Module:
    """Load ``libtvm_ios.so``.

    It is looked for in the directory ``TVM_IOS_LIBRARY_PATH``, if that is set; else among the
    installed distribution's files, in the package, and in ``build/lib`` of the source tree. It is
    told where cuDNN is, which it loads when that is first needed.

    Raises
    ------
    ImportError
        If the library is in none of these places, or cannot be loaded.
    """
    override = os.environ.get("TVM_IOS_LIBRARY_PATH")
    try:
        if override:
            library = tvm_ffi.load_module(Path(override) / _NAME)
        else:
            library = load_lib_module("tvm-ios", "tvm_ios", extra_lib_paths=_directories())
    except RuntimeError as error:
        where = (
            f"in {override}, which TVM_IOS_LIBRARY_PATH names" if override else "where it belongs"
        )
        raise ImportError(
            f"{_NAME} is not {where}, or cannot be loaded; install tvm-ios again, in a checkout "
            "with: pip install ."
        ) from error
    cudnn = find_cudnn()
    if cudnn is not None:
        tvm_ffi.get_global_func("tvm_ios.runtime.cuda.UseCudnn")(str(cudnn))
    return library


def library_path() -> Path:
    """The file that :func:`load_library` loads, for an RPC server to load it, too."""
    override = os.environ.get("TVM_IOS_LIBRARY_PATH")
    directories = [Path(override)] if override else _directories()
    return next(d / _NAME for d in directories if (d / _NAME).is_file())


def find_cudnn() -> Path | None:
    """cuDNN as PyPI's packages install it, where no loader looks; None where none is installed."""
    libraries = (place / "cudnn" / "lib" / "libcudnn.so.9" for place in nvidia_directories())
    return next((library for library in libraries if library.is_file()), None)


def nvidia_directories() -> list[Path]:
    """Where PyPI's packages of NVIDIA's libraries are; nothing of them is imported."""
    package = find_spec("nvidia")
    places = package.submodule_search_locations if package else None
    return [Path(place) for place in places or ()]


def _directories() -> list[Path]:
    """Where the library may be."""
    package = find_spec("tvm_ios")
    places = package.submodule_search_locations if package else None
    # An editable install has two of them: the sources, and what was built from them.
    directories = [Path(place) / "lib" for place in places or ()]
    return [*directories, Path(__file__).resolve().parents[2] / "build" / "lib"]
