# SPDX-License-Identifier: Apache-2.0
"""The functions of the C++ library under ``tvm_ios.``, as members of this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_ffi import init_ffi_api

from .libinfo import load_library

LIBRARY = load_library()
init_ffi_api("tvm_ios", __name__)

if TYPE_CHECKING:  # the members are only known at run time

    def __getattr__(name: str) -> Any: ...
