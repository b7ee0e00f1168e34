# SPDX-License-Identifier: Apache-2.0
"""Progress indicators for work that takes longer than a second; on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Advance = Callable[[int], None]


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
    hidden = not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def working(description: str) -> Iterator[None]:
    """Show what is being done, and since when, if the duration is unknown."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), SpinnerColumn("line"), TimeElapsedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as line:
        line.add_task(description, total=None)
        yield
