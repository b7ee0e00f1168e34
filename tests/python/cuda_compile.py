# SPDX-License-Identifier: Apache-2.0
"""CUDA C, as TVM emits it, compiled for the host; the stand-in for the driver runs it.

See ``tests/cuda/device`` for what takes the place of CUDA's headers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from cuda_ptx import replace_assembly

_HEADERS = Path(__file__).resolve().parents[1]
_DEVICE = _HEADERS / "cuda" / "device"
_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\([^)]*\) \{')
_DYNAMIC = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];")
_MEETS = re.compile(r"__sync|__shfl|__activemask|__ballot|nvcuda::|ptx|StandIn|standin::Ptx")


def compiler() -> str:
    """The host's C++ compiler."""
    return os.environ.get("CXX") or shutil.which("c++") or "g++"


def compile_kernels(source: str, standin: Path) -> bytes:
    """A shared object with the kernels of ``source``, to be loaded as a module's image.

    Parameters
    ----------
    source : str
        CUDA C.
    standin : Path
        The stand-in for the driver, ``libcuda.so.1``.
    """
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "kernels.so"
        options = [
            "-std=c++17", "-O2", "-march=native", "-w", "-fPIC", "-shared", "-fvisibility=hidden",
            "-fno-strict-aliasing", "-ffp-contract=off", "-include", str(_DEVICE / "device.h"),
            f"-I{_HEADERS}", f"-I{_DEVICE / 'include'}",
        ]  # fmt: skip
        command = [compiler(), *options, "-x", "c++", "-", "-x", "none", str(standin)]
        done = subprocess.run(
            [*command, "-o", str(library)],
            input=for_host(source), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"the stand-in cannot compile this kernel:\n{done.stderr}\n{source}")
        return library.read_bytes()


def for_host(source: str) -> str:
    """``source`` in C++, line by line the same."""
    source = replace_assembly(source)
    starts = list(_KERNEL.finditer(source))
    pieces = [source[: starts[0].start()]]
    for i, match in enumerate(starts):
        end = starts[i + 1].start() if i + 1 < len(starts) else len(source)
        name, text = match.group(1), source[match.start() : end]
        meets = "true" if _MEETS.search(text) else "false"
        text = _DYNAMIC.sub(r"STANDIN_DYNAMIC(\1, \2);", text)
        text = text.replace("__shared__", f"STANDIN_SHARED({name})")
        pieces.append(
            f"{text}\nSTANDIN_KERNEL({name}, {meets})\n" if i + 1 == len(starts) else text
        )
        if i + 1 < len(starts):
            pieces.append(f"STANDIN_KERNEL({name}, {meets}) ")
    return "".join(pieces)
