# SPDX-License-Identifier: Apache-2.0
"""The command line in the process to which the fake driver is CUDA."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from support.cuda.model import Driver
from support.cuda.whole import settings
from tvm_ios.cli.main import main


def command(
    directory: Path, arguments: Sequence[str], variables: Mapping[str, str]
) -> tuple[int, str, str, list[str]]:
    """``tvm-ios`` in a directory: its status, what it prints, its errors, and the files there.

    Parameters
    ----------
    directory : Path
    arguments : sequence of str
    variables : mapping of str to str
        Of the fake driver, which counts its calls from here on.
    """
    out, error = io.StringIO(), io.StringIO()
    os.chdir(directory)  # of a process that does nothing else meanwhile
    with settings(variables), Driver().journal(), redirect_stdout(out), redirect_stderr(error):
        status = main(list(arguments))
    return status, out.getvalue(), error.getvalue(), sorted(f.name for f in directory.iterdir())
