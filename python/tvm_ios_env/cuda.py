# SPDX-License-Identifier: Apache-2.0
"""The components for compiling to a GPU; the GPU itself is not needed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from .nvidia import EXTRA, MAJOR, MODE, SLOWER, TOOLKIT, find_headers, missing_headers
from .requirements import version

# The extra's packages: NVRTC's Python bindings, NVRTC, CUDA's headers and runtime, C++ library.
PARTS = ("cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")
_COMPILER = PARTS[:2]


@dataclass(frozen=True)
class CudaCompiler:
    """The installed components of CUDA's compilers.

    Attributes
    ----------
    packages : dict of str to str or None
        The versions of NVRTC's packages; None for a package that is not installed.
    headers : str or None
        The folder of the headers that NVRTC would use.
    toolkit : str or None
        ``CUDA_PATH``, whose headers NVRTC has to use.
    nvcc : str or None
        The path of nvcc, which is used if NVRTC is incomplete; None also if ``mode`` is ``nvrtc``.
    mode : str
        The compiler that ``TVM_CUDA_COMPILE_MODE`` names; empty if it names none.
    """

    packages: dict[str, str | None]
    headers: str | None = None
    toolkit: str | None = None
    nvcc: str | None = None
    mode: str = ""

    @property
    def lacking(self) -> list[str]:
        """The packages of NVRTC that are missing or belong to another version of CUDA.

        Those of headers count only if the headers are not elsewhere.
        """
        return self._faults(_COMPILER if self.headers or self.toolkit else PARTS)

    def __str__(self) -> str:
        if self._nvrtc and (self.headers or self.toolkit):
            headers = f"headers of {self.headers}" if self.headers else "without headers"
            return f"NVRTC {self.packages['nvidia-cuda-nvrtc']}, {headers}"
        return self.nvcc or f"not installed, which only compiling for a GPU needs ({EXTRA})"

    def advice(self) -> str | None:
        """Return what to do if there is no compiler, or NVRTC lacks headers; else None."""
        if self._nvrtc:
            if self.headers:
                return None
            if self.toolkit:
                return missing_headers(self.toolkit)
            if self.nvcc:
                return SLOWER
        if self.nvcc or self.mode == "nvcc" or not any(self.packages.values()):
            return None
        # Packages that are installed may have lost their files.
        return f"Compiling for a GPU lacks {' and '.join(self.lacking or ['headers'])}: {EXTRA}."

    @property
    def _nvrtc(self) -> bool:
        """Whether NVRTC is installed and may be used."""
        return self.mode != "nvcc" and not self._faults(_COMPILER)

    def _faults(self, names: Sequence[str]) -> list[str]:
        versions = {name: self.packages[name] for name in names}
        return [
            name if found is None else f"{name} of CUDA {MAJOR} (that of {found} is installed)"
            for name, found in versions.items()
            if found is None or found.partition(".")[0] != MAJOR
        ]


def cuda_compiler() -> CudaCompiler:
    """Return the components that are installed here, without loading them."""
    mode, headers = os.environ.get(MODE, "").lower(), find_headers()
    return CudaCompiler(
        {name: version(name) for name in PARTS},
        headers=str(headers.include) if headers else None,
        toolkit=os.environ.get(TOOLKIT) or None,
        nvcc=None if mode == "nvrtc" else shutil.which("nvcc"),
        mode=mode,
    )
