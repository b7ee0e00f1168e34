# SPDX-License-Identifier: Apache-2.0
"""Where the C++ library is, and how it is loaded."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib import metadata
from pathlib import Path

import tvm_ffi  # loads libtvm_ffi.so, which libtvm_ios.so is bound to
from tvm_ffi.libinfo import load_lib_module

__all__ = ["__version__", "find_cudnn", "library_path", "load_library"]

_NAME = "libtvm_ios.so"

try:
    __version__ = metadata.version("tvm-ios")
except metadata.PackageNotFoundError:  # a source tree on PYTHONPATH
    __version__ = "0.0.0+source"


def load_library() -> tvm_ffi.Module:
    """Load ``libtvm_ios.so``.

    It is looked for in the directory ``TVM_IOS_LIBRARY_PATH``, if that is set; else among the
    installed distribution's files, in the package, and in ``build/lib`` of the source tree.

    Raises
    ------
    ImportError
        If the library is in none of these places, or cannot be loaded.
    """
    override = os.environ.get("TVM_IOS_LIBRARY_PATH")
    try:
        if override:
            return tvm_ffi.load_module(Path(override) / _NAME)
        return load_lib_module("tvm-ios", "tvm_ios", extra_lib_paths=_directories())
    except RuntimeError as error:
        where = (
            f"in {override}, which TVM_IOS_LIBRARY_PATH names" if override else "where it belongs"
        )
        raise ImportError(
            f"{_NAME} is not {where}, or cannot be loaded; install tvm-ios again, in a checkout "
            "with: pip install ."
        ) from error


def library_path() -> Path:
    """The file that :func:`load_library` loads, for an RPC server to load it, too."""
    override = os.environ.get("TVM_IOS_LIBRARY_PATH")
    directories = [Path(override)] if override else _directories()
    return next(d / _NAME for d in directories if (d / _NAME).is_file())


def find_cudnn() -> Path | None:
    """cuDNN as PyPI's packages install it; None where none of them is installed.

    Nothing is imported for that, and nothing loaded.
    """
    spec = importlib.util.find_spec("nvidia")
    directories = (spec and spec.submodule_search_locations) or []
    libraries = (Path(d) / "cudnn" / "lib" / "libcudnn.so.9" for d in directories)
    return next((library for library in libraries if library.is_file()), None)


def _directories() -> list[Path]:
    """Where the library may be."""
    package = sys.modules[__package__]
    # An editable install has two of them: the sources, and what was built from them.
    directories = [Path(path) / "lib" for path in package.__path__]
    return [*directories, Path(__file__).resolve().parents[2] / "build" / "lib"]
