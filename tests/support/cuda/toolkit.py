# SPDX-License-Identifier: Apache-2.0
"""Files of a CUDA toolkit, without their content."""

from __future__ import annotations

from pathlib import Path

# It writes a byte to the file behind -o.
_NVCC = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf x > "$2"
"""


def write_headers(toolkit: Path, runtime: str = "include", library: str = "include/cccl") -> None:
    """Write the headers that NVRTC's are known by, into these folders of a toolkit."""
    for header in (f"{runtime}/cuda_runtime.h", f"{library}/cuda/std/cstdint"):
        path = toolkit / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def write_nvcc(folder: Path) -> Path:
    """Write a program that stands for nvcc, and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / "nvcc"
    path.write_text(_NVCC)
    path.chmod(0o755)
    return path
