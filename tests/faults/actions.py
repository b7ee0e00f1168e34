# SPDX-License-Identifier: Apache-2.0
"""What is killed: commands and calls that write files, in the same folder again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tvm_ios
from tvm_ios.cli.main import main
from tvm_ios.database import Row
from tvm_ios.database.row import to_line

from .network import Network

DATABASE = "measured.sqlite3"
OLD_DAYS = 5000
"""Rows that are this old may be deleted."""

_DAY = 86400.0
_ROWS = 600
_THREADS = ("--threads", "2")


@dataclass(frozen=True)
class Action:
    """A process that is to be killed.

    Attributes
    ----------
    name : str
    run : callable
        What it does in the folder.
    writes : tuple of str
        The files that it replaces, all or none of them.
    answer : object
        What its library computes, where it writes one.
    added : dict of str to Row
        Rows that it adds to the database, by key: all or none.
    prunes : bool
        Whether it deletes old rows: all or none.
    """

    name: str
    run: Callable[[], int | None]
    writes: tuple[str, ...]
    answer: object = None
    added: Mapping[str, Row] = field(default_factory=dict)
    prunes: bool = False


def _command(*arguments: object) -> Callable[[], int]:
    return lambda: main([*map(str, arguments)])


def _compile(network: Network, *options: object) -> Callable[[], int]:
    return _command(
        "compile", network.path, "-o", "model.so", "--schedule-out", "schedule.json",
        "--database", DATABASE, *_THREADS, *options,
    )  # fmt: skip


def _search(network: Network, choose: random.Random, _inputs: Path) -> Action:
    run = _compile(network, "--seed", choose.randint(0, 99))
    return Action("search", run, ("model.so", "schedule.json"), network.answer)


def _plain(network: Network, _choose: random.Random, _inputs: Path) -> Action:
    run = _compile(network, "--no-search")
    return Action("compile", run, ("model.so", "schedule.json"), network.answer)


def _isolated(network: Network, _choose: random.Random, _inputs: Path) -> Action:
    return Action(
        "isolated", _compile(network, "--isolate"), ("model.so", "schedule.json"), network.answer
    )


def _save(network: Network, _choose: random.Random, _inputs: Path) -> Action:
    def run() -> None:
        tvm_ios.compile(network.path, threads=2, search=False).save("saved.so")

    return Action("save", run, ("saved.so",), network.answer)


def _import(_network: Network, choose: random.Random, inputs: Path) -> Action:
    """Rows of a processor that does not exist, most of them old."""
    device = tvm_ios.database.DeviceIdentity("none", "llvm", 2, tvm_ios.__version__, "0")
    rows = {}
    for number in range(_ROWS):
        key = f"{choose.getrandbits(256):064x}"
        age = (2 * OLD_DAYS if number % 10 else 0) * _DAY
        measured = time.time() - age
        rows[key] = Row(device, key, "nothing", {"tiles": [1e-3]}, False, measured)
    lines = inputs / "lines.jsonl"
    lines.write_text("".join(to_line(row) + "\n" for row in rows.values()))
    return Action("db import", _command("db", "import", DATABASE, "-i", lines), (), added=rows)


def _prune(_network: Network, _choose: random.Random, _inputs: Path) -> Action:
    run = _command("db", "prune", DATABASE, "--older-than", OLD_DAYS)
    return Action("db prune", run, (), prunes=True)


def _export(_network: Network, _choose: random.Random, _inputs: Path) -> Action:
    run = _command("db", "export", DATABASE, "-o", "exported.jsonl")
    return Action("db export", run, ("exported.jsonl",))


def _show(_network: Network, _choose: random.Random, _inputs: Path) -> Action:
    run = _command("show", "schedule.json", "--format", "html", "-o", "view.html")
    return Action("show", run, ("view.html",))


def _run(_network: Network, choose: random.Random, _inputs: Path) -> Action:
    run = _command("run", "model.so", "-o", "out.npz", "--seed", choose.randint(0, 99))
    return Action("run", run, ("out.npz",))


ACTIONS = {
    "search": (_search, 4), "compile": (_plain, 5), "save": (_save, 4), "db import": (_import, 6),
    "db prune": (_prune, 5), "db export": (_export, 4), "show": (_show, 4), "run": (_run, 4),
    "isolated": (_isolated, 1),
}  # fmt: skip
"""How each is made, and how often; the first ones make what the others read."""
