# SPDX-License-Identifier: Apache-2.0
"""A text, and errors that point to positions in it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from ..support.errors import RelayError

_LONGEST = 300  # characters of a message, which may contain long names
_SHOWN = 100  # characters of a line; a line of parameters may have thousands
_BEFORE = 60  # of these before the column


@dataclass(frozen=True)
class Source:
    """A text with its origin.

    Attributes
    ----------
    name : str
        The path of the file, or a placeholder for messages.
    text : str
        The text.
    """

    name: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        """The offset of each line's first character."""
        starts = [0]
        while (end := self.text.find("\n", starts[-1])) >= 0:
            starts.append(end + 1)
        return starts

    def line(self, offset: int) -> int:
        """Return the number of the line that contains ``offset``, counted from 1."""
        return bisect_right(self._starts, offset)

    def error(self, offset: int, message: str, kind: type[RelayError] = RelayError) -> RelayError:
        """Return an error about the character at ``offset``, with its line and a caret below it.

        Parameters
        ----------
        offset : int
            The position; the length of the text means its end.
        message : str
            One sentence.
        kind : type of RelayError
            The type of the error.
        """
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"
        line = self.line(offset)
        start = self._starts[line - 1]
        column = offset - start + 1
        end = self.text.find("\n", start)
        shown, caret = _window(self.text[start : end if end >= 0 else None], column - 1)
        error = kind(f"{self.name}:{line}:{column}: {message}\n{shown}\n{caret}^")
        error.line, error.column = line, column
        return error


def _window(line: str, column: int) -> tuple[str, str]:
    """Return the part of a line around a column, and the space before a caret below it."""
    first = max(0, min(column - _BEFORE, len(line) - _SHOWN))
    shown = line[first : first + _SHOWN]
    before = "... " if first else ""
    after = " ..." if first + _SHOWN < len(line) else ""
    space = "".join("\t" if c == "\t" else " " for c in before + shown[: column - first])
    return before + shown.rstrip("\r") + after, space
