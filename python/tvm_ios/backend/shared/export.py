# SPDX-License-Identifier: Apache-2.0
"""Compiled code as a shared library."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import tvm
from tvm.support import cc

from ...support.errors import OptionError
from ...support.folders import TemporaryFolder
from ...support.progress import working

_NOISE = re.compile(rb"executable\.cc:\d+: Warning: Scope Saving:")


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
    with (
        working("linking the library", moving=False),
        TemporaryFolder() as folder,
        _without_noise(),
    ):
        try:
            executable.export_library(str(path), fcompile=link, workspace_dir=str(folder))
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


@contextlib.contextmanager
def _without_noise() -> Iterator[None]:
    """Drop the warnings that TVM prints for every constant that it saves; all else is passed on.

    Standard error is the process's: of two threads that took it away, one would put back what the
    other had put there. So only the main thread does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as captured, _redirected(2, captured.fileno()):
        try:
            yield
        finally:
            captured.seek(0)
            kept = [line for line in captured if not _NOISE.search(line)]
    if kept:
        sys.stderr.write(b"".join(kept).decode(errors="replace"))


@contextlib.contextmanager
def _redirected(descriptor: int, to: int) -> Iterator[None]:
    saved = os.dup(descriptor)
    os.dup2(to, descriptor)
    try:
        yield
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)
