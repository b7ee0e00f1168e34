# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios db``: what was measured so far."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from rich.table import Table

from ..database import DeviceIdentity, MeasurementDatabase
from ..database.row import Row, from_line, to_line
from ..support.errors import DatabaseError, OptionError
from ..support.files import replacing
from ..target import short_name
from . import output
from .default_database import default_path, existing
from .options import add_common, whole

_Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_EPILOG = """\
FILE is a database that a search wrote (--database). Without FILE, the command takes the default
database of searches.

examples:
  tvm-ios db info
  tvm-ios db export -o lines.jsonl
  tvm-ios db import other.sqlite3 -i lines.jsonl
  tvm-ios db prune --other-versions --older-than 90
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "db",
        help="inspect, copy and prune the measurement database",
        description="Inspect, copy and prune the measurements of searches.",
        epilog=_EPILOG,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for add in (_add_info, _add_export, _add_import, _add_prune):
        action = add(actions)
        action.add_argument("database", nargs="?", metavar="FILE", help="database of measurements")
        add_common(action)


def _add_info(actions: _Actions) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "info",
        help="count the measurements",
        description="Count measurements by device and version.",
    )
    parser.set_defaults(run=_info)
    return parser


def _add_export(actions: _Actions) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "export",
        help="write the measurements as lines of JSON",
        description="Write one line of JSON for each stage, with its measurements.",
    )
    parser.add_argument(
        "-o", "--output", metavar="LINES", help="file to write (default: standard output)"
    )
    parser.set_defaults(run=_export)
    return parser


def _add_import(actions: _Actions) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "import",
        help="add exported measurements",
        description="Add exported measurements, either all or none of them. Stages that the "
        "database knows already stay as they are. If there is no database, the command creates it.",
    )
    parser.add_argument(
        "-i", "--input", metavar="LINES", help="file to read (default: standard input)"
    )
    parser.set_defaults(run=_import)
    return parser


def _add_prune(actions: _Actions) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "prune", help="delete old measurements", description="Delete all measurements that match."
    )
    parser.add_argument(
        "--other-versions",
        action="store_true",
        help="delete those of other versions of tvm_ios or apache-tvm than the installed ones",
    )
    parser.add_argument(
        "--other-devices", action="store_true", help="delete those of other processors"
    )
    parser.add_argument(
        "--older-than", type=whole(0), metavar="DAYS", help="delete those older than this"
    )
    parser.set_defaults(run=_prune)
    return parser


def _info(args: argparse.Namespace) -> None:
    with closing(existing(args.database)) as database:
        path, devices = database.path, list(_devices(database))
    size = path.stat().st_size
    stages, samples = (sum(d[name] for d in devices) for name in ("stages", "samples"))
    if args.json:
        result = {"database": str(path), "bytes": size, "stages": stages, "samples": samples}
        output.print_json({**result, "devices": devices})
        return
    console = output.console()
    console.print(f"{path}: {stages} stages, {samples} samples, {size / 1e6:.1f} MB")
    if devices:
        console.print(_table(devices))


def _devices(database: MeasurementDatabase) -> Iterator[dict[str, Any]]:
    """Summarize each device; those in use are what a search on this machine reads."""
    known: dict[DeviceIdentity, dict[str, Any]] = {}
    for row in database.rows():
        counts = {"stages": 0, "samples": 0, "last_measured": 0.0}
        entry = known.setdefault(row.device, counts)
        entry["stages"] += 1
        entry["samples"] += sum(map(len, row.samples.values()))
        entry["last_measured"] = max(entry["last_measured"], row.measured)
    for device in sorted(known):
        this = device.is_this_machine and device.is_this_version
        yield {**asdict(device), "in_use": this, **known[device]}


def _table(devices: Iterable[dict[str, Any]]) -> Table:
    left = ("processor", "target", "tvm_ios", "tvm", "in use", "last measured")
    numbers = ("threads", "stages", "samples")
    table = output.table(*left[:5], *numbers, left[5], left=left)
    for device in devices:
        day = time.strftime("%Y-%m-%d", time.localtime(device["last_measured"]))
        target = short_name(device["target"])
        in_use = "yes" if device["in_use"] else "no"
        names = (device["cpu"], target, device["tvm_ios"], device["tvm"], in_use)
        table.add_row(*names, *(str(device[name]) for name in numbers), day)
    return table


def _export(args: argparse.Namespace) -> None:
    if args.json and args.output is None:
        raise OptionError(
            "--json prints what was written to a file; give one with --output, or leave it out."
        )
    with closing(existing(args.database)) as database:
        if args.output is None:
            _write(database, sys.stdout)
            return
        with replacing(args.output) as (draft,), draft.open("w", encoding="utf-8") as file:
            count = _write(database, file)
    _report(args, {"stages": count}, f"{args.output}: {count} stages")


def _write(database: MeasurementDatabase, file: TextIO) -> int:
    count = 0
    for row in database.rows():
        file.write(to_line(row) + "\n")
        count += 1
    return count


def _import(args: argparse.Namespace) -> None:
    path = default_path() if args.database is None else Path(args.database)
    with ExitStack() as stack:
        name, file = "standard input", sys.stdin
        if args.input is not None:
            name, file = args.input, stack.enter_context(open(args.input, encoding="utf-8"))
        rows = list(_read(file, name))  # before a database is made for nothing
    if args.database is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with closing(MeasurementDatabase(path)) as database:
        added = database.insert(rows)
    counts = {"stages": len(rows), "added": added}
    _report(args, counts, f"{path}: {added} stages added, {len(rows) - added} known already")


def _read(file: TextIO, name: str) -> Iterator[Row]:
    try:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield from_line(line, f"Line {number} of {name}")
    except UnicodeDecodeError as error:
        raise DatabaseError(f"{name} is not a text file.") from error


def _prune(args: argparse.Namespace) -> None:
    if not (args.other_versions or args.other_devices or args.older_than is not None):
        raise OptionError(
            "Say what to delete: --other-versions, --other-devices or --older-than DAYS."
        )

    def unwanted(device: DeviceIdentity) -> bool:
        other_version = args.other_versions and not device.is_this_version
        return other_version or (args.other_devices and not device.is_this_machine)

    days = args.older_than
    before = 0.0 if days is None else time.time() - days * 86400.0
    with closing(existing(args.database)) as database:  # which raises if there is none
        path = database.path
    with closing(MeasurementDatabase(path)) as database:
        deleted = database.delete(unwanted, before)
    _report(args, {"deleted": deleted}, f"{path}: {deleted} stages deleted")


def _report(args: argparse.Namespace, counts: dict[str, int], text: str) -> None:
    if args.json:
        output.print_json(counts)
    else:
        output.console().print(text, soft_wrap=True)
