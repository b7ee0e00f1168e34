# SPDX-License-Identifier: Apache-2.0
"""Progress indicators for work that takes longer than a second; on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Advance = Callable[[int], None]
COMPILING = (
    "reading the network",
    "preparing the network",
    "compiling the kernels",
    "compiling the library",
    "linking the library",
)
"""What is done without a search, in this order."""

_Item = TypeVar("_Item")
_steps: ContextVar[Sequence[str]] = ContextVar("steps", default=())
_shown: ContextVar[_Line | None] = ContextVar("shown", default=None)
_quiet = False


@dataclass
class _Line:
    """The line of what is being done.

    Attributes
    ----------
    bar : Progress
    task : TaskID
    counts : bool
        Whether it counts something already.
    """

    bar: Progress
    task: TaskID
    counts: bool = False


def silence() -> None:
    """Show nothing from now on."""
    global _quiet
    _quiet = True


@contextmanager
def numbering(descriptions: Sequence[str]) -> Iterator[None]:
    """Number what :func:`working` shows: it is one of these steps."""
    before = _steps.set(descriptions)
    try:
        yield
    finally:
        _steps.reset(before)


def counting(items: Iterable[_Item], total: int, noun: str) -> Iterator[_Item]:
    """Yield the items, and show how many are done beside what is being done.

    Where something is counted already, that count stays.
    """
    line = _shown.get()
    if line is None or line.counts or line.bar.disable:
        yield from items
        return
    line.counts = True
    for done, item in enumerate(items):
        line.bar.update(line.task, count=f"{done} of {total} {noun}")
        yield item
    line.bar.update(line.task, count="")
    line.counts = False


@contextmanager
def progress(description: str, total: int) -> Iterator[Advance]:
    """Show a progress bar on standard error; yield a function that advances it by ``n``."""
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=_hidden(console), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def working(description: str) -> Iterator[None]:
    """Show what is being done, and since when, if the duration is unknown."""
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        TextColumn("{task.fields[count]}"),
        SpinnerColumn("line"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=_hidden(console), transient=True) as bar:
        shown = _shown.set(_Line(bar, bar.add_task(_numbered(description), total=None, count="")))
        try:
            yield
        finally:
            _shown.reset(shown)


def _numbered(description: str) -> str:
    known = _steps.get()
    if description not in known:
        return description
    return f"{description} (step {known.index(description) + 1} of {len(known)})"


def _hidden(console: Console) -> bool:
    return _quiet or not console.is_terminal
