# SPDX-License-Identifier: Apache-2.0
"""The stand-in for CUDA's libraries, and what is read from its journal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

_SOURCES = Path(__file__).resolve().parents[1]


def build_standin(directory: Path) -> Path:
    """Compile ``libcuda.so.1`` and ``libcudart.so.13`` of ``tests/cuda`` into a directory."""
    driver, runtime = directory / "libcuda.so.1", directory / "libcudart.so.13"
    names = ("capture", "driver", "journal", "machine")
    _compile(driver, *(_SOURCES / "cuda" / f"{name}.cc" for name in names))
    versions = f"-Wl,--version-script={_SOURCES / 'cuda' / 'runtime.map'}"
    _compile(runtime, _SOURCES / "cuda" / "runtime.cc", driver, versions)
    return directory


def _compile(library: Path, *inputs: str | Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    options = ["-std=c++17", "-shared", "-fPIC", f"-I{_SOURCES}", f"-Wl,-soname,{library.name}"]
    subprocess.run([compiler, *options, *map(str, inputs), "-o", str(library)], check=True)


def with_standin(directory: Path) -> dict[str, str]:
    """The environment of a process to which the stand-in is CUDA."""
    others = os.environ.get("LD_LIBRARY_PATH")
    path = f"{directory}{os.pathsep}{others}" if others else str(directory)
    return {**os.environ, "LD_LIBRARY_PATH": path}


def plain(journal: list[str]) -> list[str]:
    """A journal without its threads; streams, events and graphs numbered as they appear."""
    numbers: dict[str, dict[str, int]] = {}

    def rename(match: re.Match[str]) -> str:
        kind, number = match.group(1), match.group(2)
        if kind == "s" and number == "0":
            return "s0"  # the default stream
        known = numbers.setdefault(kind, {})
        return f"{kind}{known.setdefault(number, len(known) + 1)}"

    lines = [line.split(": ", 1)[1] for line in journal]
    return [re.sub(r"\b([segx])(\d+)\b", rename, line) for line in lines]
