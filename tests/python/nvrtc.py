# SPDX-License-Identifier: Apache-2.0
"""CUDA's own compiler, which needs no GPU."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tvm.support import nvcc


def compile_source(source: str, kind: str, architecture: str) -> bytes:
    """Machine code ("cubin") or PTX ("ptx") of CUDA C; the test is skipped without the compiler."""
    toolkit = _toolkit()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_PATH", str(toolkit))
        options = [f"-I{toolkit / 'include' / 'cccl'}"]
        return bytes(nvcc.compile_cuda(source, kind, architecture, options, compiler="nvrtc"))


def _toolkit() -> Path:
    """Where the packages of PyPI have CUDA's headers."""
    for name in ("cuda.bindings.nvrtc", "nvidia.cu13"):
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip("needs cuda-bindings and nvidia-cuda-nvrtc, -runtime, -cccl of CUDA 13")
    toolkit = Path(next(iter(found.submodule_search_locations)))
    for header in ("cuda_runtime.h", "cccl/cuda/std/cstdint"):
        if not (toolkit / "include" / header).exists():
            pytest.skip(f"no {header} in {toolkit}")
    return toolkit
