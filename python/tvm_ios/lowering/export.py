# SPDX-License-Identifier: Apache-2.0
"""Compiled code as a shared library."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

import tvm
from tvm.support import cc

from ..support.errors import OptionError
from ..support.folders import TemporaryFolder
from ..support.messages import logged
from ..support.progress import working

# An identifier is a digest of the library with its constants, which takes longer than linking them.
_OPTIONS = ["-Wl,--build-id=none"]


def export(executable: tvm.runtime.Executable, path: Path, compiler: str | None = None) -> None:
    """Write the shared library.

    Parameters
    ----------
    executable : tvm.runtime.Executable
    path : Path
    compiler : str, optional
        What links it, for another architecture than this machine's.

    Raises
    ------
    OptionError
        When it cannot be linked.
    OSError
        When there is no space left for it.
    """
    check_linker(compiler)
    link = cc.cross_compiler(compiler) if compiler else None
    options = _OPTIONS if sys.platform == "linux" else []
    with (
        working("linking the library"),
        TemporaryFolder() as folder,
        logged(),
    ):
        try:
            executable.export_library(
                str(path), fcompile=link, workspace_dir=str(folder), options=options
            )
        except RuntimeError as error:
            if os.strerror(errno.ENOSPC) in str(error):
                full = str(_fullest(path, folder.parent))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), full) from error
            reason = str(error).strip().splitlines()[-1]
            raise OptionError(
                f"{compiler or 'The compiler'} could not link the code ({reason}); name one that "
                "can with --cross-compiler."
            ) from error


def check_linker(compiler: str | None = None) -> None:
    """Raise OptionError if there is nothing to link a library with."""
    chosen = compiler or cc.get_cc()
    if chosen is None or shutil.which(chosen) is None:
        missing, wanted = (f"The C++ compiler {chosen}", "it") if chosen else ("A compiler", "g++")
        raise OptionError(f"{missing} was not found, which links libraries; install {wanted}.")


def _fullest(library: Path, temporary: Path) -> Path:
    """Return the fuller of the folders involved, as the linker's message names none."""
    places = {library.parent: library, temporary: temporary}
    linker = Path(os.environ.get("TMPDIR", temporary))
    if linker.is_dir():
        places.setdefault(linker, linker)
    return places[min(places, key=lambda place: shutil.disk_usage(place).free)]
