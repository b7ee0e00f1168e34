# SPDX-License-Identifier: Apache-2.0
"""A place among a text's words, and the steps that all parts of the parser take from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...support.errors import RelayError
from .lexer import Token, Words
from .source import Source

MAX_NESTING = 60
"""How deep brackets nest at most; each level takes a few frames of Python's stack. What TVM prints
nests functions and branches alone, everything else it binds to graph variables."""

_KINDS = {
    "local": "a variable",
    "global": "the name of a function",
    "name": "a name",
    "number": "a number",
    "string": "a string",
    "end": "the end",
    "version": "the version",
}

_T = TypeVar("_T")


class Cursor:
    """A place among the words of a text.

    Attributes
    ----------
    source : Source
    words : Words
    position : int
        The index of the next word.
    """

    def __init__(self, source: Source, words: Words) -> None:
        self.source = source
        self.words = words
        self.position = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The next word."""
        return self.words.tokens[self.position]

    @property
    def following(self) -> Token:
        """The word after the next, if there is one."""
        tokens = self.words.tokens
        return tokens[min(self.position + 1, len(tokens) - 1)]

    def take(self) -> Token:
        """Go past the next word, which is not the end."""
        token = self.words.tokens[self.position]
        self.position += 1
        return token

    def accept(self, kind: str) -> bool:
        """Go past the next word if it is of this kind."""
        if self.words.tokens[self.position].kind != kind:
            return False
        self.position += 1
        return True

    def expect(self, kind: str) -> Token:
        """Go past the next word, which must be of this kind.

        Raises
        ------
        RelayError
            Where it is another.
        """
        if self.token.kind != kind:
            raise self.unexpected(_KINDS.get(kind, f"'{kind}'"))
        return self.take()

    def sequence(self, close: str, read: Callable[[], _T]) -> tuple[_T, ...]:
        """What ``read`` reads, any number of times with commas between, up to ``close``."""
        values: list[_T] = []
        while not self.accept(close):
            values.append(read())
            if not self.accept(","):
                self.expect(close)
                break
        return tuple(values)

    def enter(self) -> None:
        """Go one level down in the nesting.

        Raises
        ------
        RelayError
            Where this is too deep.
        """
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self.error(
                f"This nests deeper than {MAX_NESTING} levels; bind what is inside to variables."
            )

    def leave(self) -> None:
        """Go up again."""
        self._depth -= 1

    def error(
        self, message: str, token: Token | None = None, kind: type[RelayError] = RelayError
    ) -> RelayError:
        """An error about a word, by default the next."""
        return self.source.error((token or self.token).offset, message, kind)

    def unexpected(self, wanted: str) -> RelayError:
        """An error that the next word is not what is wanted."""
        found = "the end" if self.token.kind == "end" else f"'{self.token.text}'"
        return self.error(f"Expected {wanted}, found {found}.")
