# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's packages from PyPI, and the headers of CUDA that NVRTC compiles with."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MAJOR = "13"  # major version of CUDA and of its packages on PyPI
EXTRA = "pip install 'tvm-ios[cuda]'"

# Variables that TVM reads.
MODE, TOOLKIT, OPTIONS = "TVM_CUDA_COMPILE_MODE", "CUDA_PATH", "TVM_CUDA_NVRTC_EXTRA_OPTS"

_RUNTIME, _LIBRARY = "cuda_runtime.h", "cuda/std/cstdint"  # of nvidia-cuda-runtime and -cccl
_FOLDER_OPTION = re.compile(r"(?:-I=?|--include-path=)(.+)")

SLOWER = (
    f"NVRTC lacks CUDA's headers ({_RUNTIME} and {_LIBRARY}), so nvcc compiles the kernels, which "
    f"takes about three times as long; run: {EXTRA}."
)


@dataclass(frozen=True)
class Headers:
    """The headers of one toolkit.

    Attributes
    ----------
    toolkit : Path
        What ``CUDA_PATH`` has to name, so that TVM finds them.
    include, library : Path
        The folders of ``cuda_runtime.h`` and of CUDA's C++ library.
    """

    toolkit: Path
    include: Path
    library: Path

    def environment(self) -> dict[str, str]:
        """Return the variables by which TVM finds the headers."""
        option = shlex.quote(f"-I{self.library}")  # TVM does not search where PyPI has it
        return {
            TOOLKIT: str(self.toolkit),
            OPTIONS: f"{os.environ.get(OPTIONS, '')} {option}".strip(),
        }


def find_headers() -> Headers | None:
    """Return the headers that NVRTC would use, None if no toolkit has all that it needs.

    They are those of ``CUDA_PATH``. If it is not set, they are those of PyPI's packages, else those
    of the toolkit that nvcc belongs to.
    """
    named = os.environ.get(TOOLKIT)
    if named:
        return _headers_of(Path(named))
    packages = [place / f"cu{MAJOR}" for place in nvidia_directories()]
    return next(filter(None, map(_headers_of, [*packages, *_toolkit_of_nvcc()])), None)


def missing_headers(toolkit: str) -> str:
    """Return a sentence about the headers that ``toolkit``, named by ``CUDA_PATH``, lacks."""
    root = Path(toolkit)
    found = {_RUNTIME: _runtime_in(root), _LIBRARY: _library_in(root)}
    missing = " and ".join(header for header, folder in found.items() if folder is None)
    folders = ", ".join(str(folder.relative_to(root)) for folder in _searched(root))
    return (
        f"NVRTC needs {missing}, which {TOOLKIT}={toolkit} does not have in {folders} or "
        f"cccl below them; name a toolkit that has such headers, or unset {TOOLKIT} to use those "
        f"of {EXTRA}."
    )


def nvidia_directories() -> list[Path]:
    """Return the directories of NVIDIA's packages from PyPI, without importing them."""
    package = find_spec("nvidia")
    places = package.submodule_search_locations if package else None
    return [Path(place) for place in places or ()]


def _headers_of(toolkit: Path) -> Headers | None:
    include, library = _runtime_in(toolkit), _library_in(toolkit)
    return Headers(toolkit, include, library) if include and library else None


def _runtime_in(toolkit: Path) -> Path | None:
    return _having(_RUNTIME, _searched(toolkit))


def _library_in(toolkit: Path) -> Path | None:
    places = (folder / below for below in ("", "cccl") for folder in _searched(toolkit))
    return _having(_LIBRARY, [*places, *_named_folders()])


def _searched(toolkit: Path) -> list[Path]:
    """Return the folders of a toolkit that TVM searches (``tvm.support.nvcc``)."""
    machine = platform.machine()
    triples = [f"{machine}-linux"]
    if machine in ("aarch64", "arm64"):
        triples.insert(0, "sbsa-linux")
    targets = [toolkit / "targets" / triple / "include" for triple in triples]
    return [toolkit / "include", next(filter(Path.is_dir, targets), targets[0])]


def _having(header: str, folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / header).is_file()), None)


def _named_folders() -> list[Path]:
    """Return the folders that the user's options for NVRTC name."""
    try:
        options = shlex.split(os.environ.get(OPTIONS, ""))
    except ValueError:  # TVM reports it
        return []
    return [Path(found[1]) for found in map(_FOLDER_OPTION.fullmatch, options) if found]


def _toolkit_of_nvcc() -> list[Path]:
    """Return the toolkit that TVM looks in without ``CUDA_PATH``, if there is one."""
    nvcc = shutil.which("nvcc")
    if nvcc:
        return [Path(nvcc).resolve().parents[1]]
    usual = Path("/usr/local/cuda")
    return [usual] if (usual / "bin" / "nvcc").exists() else []
