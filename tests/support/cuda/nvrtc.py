# SPDX-License-Identifier: Apache-2.0
"""CUDA's own compiler, which needs no GPU."""

from __future__ import annotations

import pytest
from tvm.support import nvcc

from tvm_ios.backend.cuda.code.toolchain import cuda_compiler, find_toolchain
from tvm_ios.errors import OptionError


def needs_nvrtc() -> None:
    """Skip the test where it is not installed."""
    try:
        found = find_toolchain().name
    except OptionError:
        found = "none"
    if found != "nvrtc":
        pytest.skip("needs CUDA's compiler; pip install 'tvm-ios[cuda]'")


def compile_source(source: str, kind: str, architecture: str) -> bytes:
    """Machine code ("cubin") or PTX ("ptx") of CUDA C, as the package has it compiled."""
    needs_nvrtc()
    with cuda_compiler():
        return bytes(nvcc.compile_cuda(source, kind, architecture, compiler="nvrtc"))
