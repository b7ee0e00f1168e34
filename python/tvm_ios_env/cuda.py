# SPDX-License-Identifier: Apache-2.0
"""What compiling for a GPU needs, which need not be there itself."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from .requirements import version

MAJOR = "13"  # of CUDA, and of its packages on PyPI
EXTRA = "pip install 'tvm-ios[cuda]'"

# As the extra has them: NVRTC from Python, NVRTC, CUDA's headers and runtime, its C++ library.
PARTS = ("cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


@dataclass(frozen=True)
class CudaCompiler:
    """What is installed of CUDA's compilers.

    Attributes
    ----------
    packages : dict of str to str or None
        The versions of NVRTC's parts; None for what is not installed.
    toolkit : str or None
        Its nvcc, or where ``CUDA_PATH`` says that it is; used where NVRTC is not complete.
    """

    packages: dict[str, str | None]
    toolkit: str | None

    @property
    def lacking(self) -> list[str]:
        """The parts of NVRTC that are missing, or of another version of CUDA."""
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
        """What to do where NVRTC is there in part, and nothing else compiles."""
        if self.toolkit or not self.lacking or not any(self.packages.values()):
            return None
        return f"Compiling for a GPU lacks {' and '.join(self.lacking)}: {EXTRA}."


def cuda_compiler() -> CudaCompiler:
    """What is installed here; nothing of it is loaded."""
    toolkit = shutil.which("nvcc") or os.environ.get("CUDA_PATH")
    return CudaCompiler({name: version(name) for name in PARTS}, toolkit)
