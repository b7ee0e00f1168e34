# SPDX-License-Identifier: Apache-2.0
"""Command lines of benchmarks that search, and the files that they write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from machine import describe

LIMITS = {"max_group_size": 3, "max_num_groups": 8}


def parser(description: str, networks: Sequence[str], what: str) -> argparse.ArgumentParser:
    """Return a parser of networks, ``--threads`` and ``--json``.

    Parameters
    ----------
    description : str
        The benchmark's docstring; its first line describes the command.
    networks : sequence of str
        The default networks.
    what : str
        What ``--json`` writes.
    """
    made = argparse.ArgumentParser(description=description.split("\n")[0])
    made.add_argument("models", nargs="*", default=networks)
    made.add_argument("--threads", type=int, help="default: all cores")
    made.add_argument("--json", type=Path, metavar="FILE", help=f"write the {what}, too")
    return made


def add_limits(to: argparse.ArgumentParser) -> None:
    """Add IOS's limits of a stage; :func:`limits` reads them."""
    for name, value in LIMITS.items():
        to.add_argument("--" + name.replace("_", "-"), type=int, default=value)


def limits(args: argparse.Namespace) -> dict[str, int]:
    """Return the limits by the names of the options of a search."""
    return {name: getattr(args, name) for name in LIMITS}


def write(path: Path | None, **results: object) -> None:
    """Write results as JSON, dataclasses included, behind a description of this machine."""
    if path is not None:
        record = {**asdict(describe()), **results}
        path.write_text(json.dumps(record, indent=1, default=asdict) + "\n")
