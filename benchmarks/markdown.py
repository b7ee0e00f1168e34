# SPDX-License-Identifier: Apache-2.0
"""Tables as Markdown: they read well on a terminal and go into a README as they are."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first column is text and whose other columns are numbers."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [header, rule, *rows]
    return "\n".join(
        f"| {' | '.join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])])} |"
        for cells in lines
    )
