# SPDX-License-Identifier: Apache-2.0
"""The C++ library's functions under ``tvm_ios.``, as members of this module."""

from __future__ import annotations

from tvm_ffi import init_ffi_api

from .libinfo import load_library

LIBRARY = load_library()
init_ffi_api("tvm_ios", __name__)
