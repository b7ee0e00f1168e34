# SPDX-License-Identifier: Apache-2.0
"""Try models one after another, and keep what is known in a file, so that a survey can go on."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from machine import describe
from peer.process import ContenderError
from peers import whole
from public.catalogue import find
from tvm_ios.support.files import replacing
from tvm_ios.target import available_cores

Trial = Callable[[str, Path], Iterator[dict[str, Any]]]
"""Yields rows of figures for a model by its name; files go to the folder."""


def survey(models: Sequence[str], threads: int, path: Path, trial: Trial) -> dict[str, Any]:
    """Try the models that a file does not have yet, and keep it after each of them.

    Parameters
    ----------
    models : sequence of str
    threads : int
    path : Path
        The file, as JSON; it goes on if it exists.
    trial : callable

    Returns
    -------
    dict
        The machine, the date and the rows; that of a model that failed says why.
    """
    record: dict[str, Any] = {"threads": threads, "cpu": describe().cpu, "rows": []}
    record["date"] = time.strftime("%Y-%m-%d", time.gmtime())
    if path.exists():
        record = json.loads(path.read_text())
    known = {row["model"] for row in record["rows"]}
    for name in (name for name in models if name not in known):
        with tempfile.TemporaryDirectory() as folder:
            try:
                for row in trial(name, Path(folder)):
                    plain = {k: v for k, v in row.items() if isinstance(v, (int, float, str))}
                    print({"model": name, **plain}, file=sys.stderr)
                    record["rows"].append({"model": name, **row})
            except (ContenderError, subprocess.CalledProcessError) as error:
                record["rows"].append({"model": name, "failure": str(error)[:200]})
        with replacing(path) as (new,):
            new.write_text(json.dumps(record, indent=1))
    return record


def run(
    description: str,
    models: Sequence[str],
    trial: Callable[..., Iterator[dict[str, Any]]],
    render: Callable[[dict[str, Any]], str],
    argv: Sequence[str] | None = None,
) -> int:
    """Try models as the command line says, and write or print the page; return the exit status.

    ``trial`` is a :data:`Trial` that takes the number of threads, too.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--models", default=",".join(models), metavar="NAME,...")
    parser.add_argument("--threads", type=whole, default=available_cores(), metavar="N")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="all figures")
    parser.add_argument("--page", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    with_threads = partial(trial, threads=options.threads)
    record = survey(options.models.split(","), options.threads, options.json, with_threads)
    page = render(record)
    if options.page:
        options.page.write_text(page)
    else:
        print(page)
    return 0


def export_open(name: str, file: Path) -> None:
    """Write a public model as an ONNX file that leaves the sizes of its input open."""
    command = [sys.executable, "-m", "public.open_export", find(name).source, name, str(file)]
    subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True)
