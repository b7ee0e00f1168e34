# SPDX-License-Identifier: Apache-2.0
"""The version of the package and the location of its C++ library."""

from __future__ import annotations

from importlib import metadata

from tvm_ios_runtime.library import library_path, load_library

__all__ = ["__version__", "library_path", "load_library"]

try:
    __version__ = metadata.version("tvm-ios")
except metadata.PackageNotFoundError:  # a source tree on PYTHONPATH
    __version__ = "0.0.0+source"
