# SPDX-License-Identifier: Apache-2.0
"""CUDA C compiled to PTX by NVRTC, which needs no GPU."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from tvm.support import nvcc


def compile_ptx(source: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """PTX for ``arch``, such as sm_90; the test is skipped where NVRTC is not installed.

    The headers are those of the packages nvidia-cuda-runtime and nvidia-cuda-cccl, else those of
    the toolkit that TVM finds.
    """
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings and nvidia-cuda-nvrtc")
    options = []
    for root in _packaged():
        monkeypatch.setenv("CUDA_PATH", str(root))
        options.append(f"-I{root / 'include' / 'cccl'}")
    if "CUDA_PATH" not in os.environ and not Path("/usr/local/cuda/include").is_dir():
        pytest.skip("needs the headers of nvidia-cuda-runtime and nvidia-cuda-cccl")
    code = nvcc.compile_cuda(source, "ptx", arch, options, compiler="nvrtc")
    return bytes(code).rstrip(b"\0").decode()


def _packaged() -> list[Path]:
    """Where Python's packages have CUDA's headers, if they are installed."""
    spec = importlib.util.find_spec("nvidia.cu13") if importlib.util.find_spec("nvidia") else None
    roots = map(Path, spec.submodule_search_locations or []) if spec else []
    return [root for root in roots if (root / "include" / "cuda_runtime.h").is_file()][:1]
