# SPDX-License-Identifier: Apache-2.0
"""The C++ library with one changed file, from the objects that the build has of all others."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

_NAME = "libtvm_ios.so"


def build_library(copy: Path, file: str, build: Path) -> Path:
    """Compile one file and link the library; return the directory that it is in.

    Parameters
    ----------
    copy : Path
        Has the sources, of which ``file`` is not as it was when ``build`` was built.
    file : str
        The source, relative to ``copy``.
    build : Path
        The build directory, which is left as it is.

    Raises
    ------
    ValueError
        If the build directory cannot build the file.
    OSError
        If there is none.
    """
    made = copy / "lib"
    made.mkdir()
    compiling, linking = _commands(build, file)
    built = f"CMakeFiles/tvm_ios_objects.dir/{file}.o"
    home = _home(build)
    compiling = compiling.replace(f"{home}/src", f"{copy}/src")
    for old, new in ((f"-o {built}", f"-o {made}/changed.o"), ("-O3", "-O0")):
        compiling = compiling.replace(old, new)
    linking = linking.replace(f" {built} ", f" {made}/changed.o ")
    linking = linking.replace(f"-o lib/{_NAME}", f"-o {made}/{_NAME}")
    for command in (compiling.replace(f"-MF {built}.d", f"-MF {made}/changed.d"), linking):
        subprocess.run(command, shell=True, cwd=build, check=True, capture_output=True)
    return made


def _commands(build: Path, file: str) -> tuple[str, str]:
    """Return how the file is compiled, and how the library is linked."""
    ninja = Path(sys.executable).parent / "ninja"
    command = shlex.join([str(ninja), "-C", str(build), "-t", "commands", f"lib/{_NAME}"])
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    compiling = [line for line in lines if f"/{file}.o -c " in line]
    linking = [line for line in lines if f"-o lib/{_NAME}" in line]
    if not (compiling and linking):
        raise ValueError(f"{build} does not build {file}: {done.stdout[-300:]}{done.stderr}")
    return compiling[0], linking[0]


def _home(build: Path) -> str:
    """Return the source directory of a build directory."""
    lines = (build / "CMakeCache.txt").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("CMAKE_HOME_DIR"))
