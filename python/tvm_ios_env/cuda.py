# SPDX-License-Identifier: Apache-2.0
"""The components for compiling to a GPU; the GPU itself is not needed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from .requirements import version

MAJOR = "13"  # major version of CUDA and of its packages on PyPI
EXTRA = "pip install 'tvm-ios[cuda]'"

# The extra's packages: NVRTC's Python bindings, NVRTC, CUDA's headers and runtime, C++ library.
PARTS = ("cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


@dataclass(frozen=True)
class CudaCompiler:
    """The installed components of CUDA's compilers.

    Attributes
    ----------
    packages : dict of str to str or None
        The versions of NVRTC's packages; None for a package that is not installed.
    toolkit : str or None
        The path of nvcc, or ``CUDA_PATH``; used if NVRTC is incomplete.
    """

    packages: dict[str, str | None]
    toolkit: str | None

    @property
    def lacking(self) -> list[str]:
        """The packages of NVRTC that are missing or belong to another version of CUDA."""
        return [
            name if found is None else f"{name} of CUDA {MAJOR} (that of {found} is installed)"
            for name, found in self.packages.items()
            if found is None or found.partition(".")[0] != MAJOR
        ]

    def __str__(self) -> str:
        if not self.lacking:
            return f"NVRTC {self.packages['nvidia-cuda-nvrtc']}"
        return self.toolkit or f"not installed, which only compiling for a GPU needs ({EXTRA})"

    def advice(self) -> str | None:
        """Return what to do if NVRTC is incomplete and there is no other compiler; else None."""
        if self.toolkit or not self.lacking or not any(self.packages.values()):
            return None
        return f"Compiling for a GPU lacks {' and '.join(self.lacking)}: {EXTRA}."


def cuda_compiler() -> CudaCompiler:
    """Return the components that are installed here, without loading them."""
    toolkit = shutil.which("nvcc") or os.environ.get("CUDA_PATH")
    return CudaCompiler({name: version(name) for name in PARTS}, toolkit)
