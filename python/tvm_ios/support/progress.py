# SPDX-License-Identifier: Apache-2.0
"""What is under way, and how far, where it takes longer than a second; on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Advance = Callable[[int], None]


@contextmanager
def progress(description: str, total: int) -> Iterator[Advance]:
    """A bar on standard error; ``advance(n)`` moves it by ``n``."""
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    hidden = not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def working(description: str, *, moving: bool = True) -> Iterator[None]:
    """What is done meanwhile, and since when, where nobody knows how long it takes.

    Parameters
    ----------
    description : str
    moving : bool
        Without it the line is written once, for what takes standard error away meanwhile.
    """
    console = Console(file=sys.stderr)
    columns: list[ProgressColumn] = [TextColumn("{task.description}")]
    if moving:
        columns += [SpinnerColumn("line"), TimeElapsedColumn()]
    with Progress(
        *columns,
        console=console,
        auto_refresh=moving,
        disable=not console.is_terminal,
        transient=True,
    ) as line:
        line.add_task(description, total=None)
        yield
