# SPDX-License-Identifier: Apache-2.0
"""The C++ library's functions under ``tvm_ios.``, as members of this module."""

from __future__ import annotations

from tvm_ffi import get_global_func, init_ffi_api

from tvm_ios import errors  # noqa: F401  (registers what the library throws)
from tvm_ios.libinfo import find_cudnn, load_library

LIBRARY = load_library()
init_ffi_api("tvm_ios", __name__)

_CUDNN = find_cudnn()
if _CUDNN is not None:
    # The system's loader does not look where PyPI's packages are.
    get_global_func("tvm_ios.runtime.cuda.UseCudnn")(str(_CUDNN))
