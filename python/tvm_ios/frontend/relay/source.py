# SPDX-License-Identifier: Apache-2.0
"""A text, and errors that point into it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from ...support.errors import RelayError

_LONGEST = 300  # characters of a message, in which names of any length may be
_SHOWN = 100  # characters of a line; those that list a function's parameters have thousands
_BEFORE = 60  # of them before the place that is pointed at


@dataclass(frozen=True)
class Source:
    """A text and where it is from.

    Attributes
    ----------
    name : str
        The path of the file, or what stands for it in messages.
    text : str
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
        """The number of the line that has the character at ``offset``, counted from 1."""
        return bisect_right(self._starts, offset)

    def error(self, offset: int, message: str, kind: type[RelayError] = RelayError) -> RelayError:
        """An error about the character at ``offset``, with its line and a caret below it.

        Parameters
        ----------
        offset : int
            The length of the text stands for its end.
        message : str
            One sentence.
        kind : type of RelayError
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
    """The part of a line around a column, and the space that a caret below it takes before it."""
    first = max(0, min(column - _BEFORE, len(line) - _SHOWN))
    shown = line[first : first + _SHOWN]
    before = "... " if first else ""
    after = " ..." if first + _SHOWN < len(line) else ""
    space = "".join("\t" if c == "\t" else " " for c in before + shown[: column - first])
    return before + shown.rstrip("\r") + after, space
