# SPDX-License-Identifier: Apache-2.0
"""CUDA C, as TVM emits it, compiled for the host; the fake driver runs it.

See ``tests/cuda/device`` for what takes the place of CUDA's headers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path

from support.cuda.ptx import replace_assembly
from support.paths import TESTS

_DEVICE = TESTS / "cuda" / "device"
_HEADER = "device.h"
_OPTIONS = (
    "-std=c++17", "-O1", "-march=native", "-w", "-fPIC", "-fvisibility=hidden",
    "-fno-strict-aliasing", "-ffp-contract=off", f"-I{TESTS}", f"-I{_DEVICE / 'include'}",
)  # fmt: skip
_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\([^)]*\) \{')
_DYNAMIC = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];")
_END_OF_PRELUDE = "#define ushort unsigned short\n#endif\n"
# What makes threads wait for each other, in a kernel or in a function that it calls.
_MEETS = re.compile(r"__sync|__shfl|__activemask|__ballot|nvcuda::|ptx|StandIn|fake_driver::Ptx")


def compiler() -> str:
    """The host's C++ compiler."""
    return os.environ.get("CXX") or shutil.which("c++") or "g++"


def precompile_header(directory: Path) -> None:
    """Compile into a directory what all kernels include, which is most of a small kernel's time."""
    header = directory / _HEADER
    header.write_text(f'#include "{_DEVICE / _HEADER}"\n')
    command = [compiler(), *_OPTIONS, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
    subprocess.run(command, check=True)


@lru_cache(maxsize=256)
def compile_kernels(source: str, fake_driver: Path) -> bytes:
    """A shared object with the kernels of ``source``, to be loaded as a module's image.

    Parameters
    ----------
    source : str
        CUDA C.
    fake_driver : Path
        the fake driver, ``libcuda.so.1``, with the header of :func:`precompile_header` beside it.
    """
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "kernels.so"
        options = [*_OPTIONS, "-shared", "-include", str(fake_driver.with_name(_HEADER))]
        command = [compiler(), *options, "-x", "c++", "-", "-x", "none", str(fake_driver)]
        done = subprocess.run(
            [*command, "-o", str(library)],
            input=for_host(source), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(
                f"the fake driver cannot compile this kernel:\n{done.stderr}\n{source}"
            )
        return library.read_bytes()


def for_host(source: str) -> str:
    """``source`` in C++, line by line the same."""
    source = replace_assembly(source)
    starts = list(_KERNEL.finditer(source))
    pieces = [source[: starts[0].start()]]
    helpers = _MEETS.search(pieces[0].rpartition(_END_OF_PRELUDE)[2]) is not None
    for start, after in zip_longest(starts, starts[1:]):
        text = source[start.start() : after.start() if after else len(source)]
        name = start.group(1)
        meets = "true" if helpers or _MEETS.search(text) else "false"
        text = _DYNAMIC.sub(r"FAKE_DRIVER_DYNAMIC(\1, \2);", text)
        pieces += [
            text.replace("__shared__", f"FAKE_DRIVER_SHARED({name})"),
            f" FAKE_DRIVER_KERNEL({name}, {meets}) ",
        ]
    return "".join(pieces)
