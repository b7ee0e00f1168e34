# SPDX-License-Identifier: Apache-2.0
"""A position among the tokens of a text, with the operations that all parts of the parser share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..support.errors import RelayError
from .lexer import Token, Words
from .source import Source

MAX_NESTING = 60
"""The maximum nesting of brackets; each level takes a few frames of Python's stack. TVM's printer
nests only functions and branches; it binds everything else to graph variables."""

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
    """A position among the tokens of a text.

    Attributes
    ----------
    source : Source
        The text.
    words : Words
        Its tokens.
    position : int
        The index of the next token.
    """

    def __init__(self, source: Source, words: Words) -> None:
        self.source = source
        self.words = words
        self.position = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.words.tokens[self.position]

    @property
    def following(self) -> Token:
        """The token after the next, if there is one."""
        tokens = self.words.tokens
        return tokens[min(self.position + 1, len(tokens) - 1)]

    def take(self) -> Token:
        """Consume and return the next token, which is not the end."""
        token = self.words.tokens[self.position]
        self.position += 1
        return token

    def accept(self, kind: str) -> bool:
        """Consume the next token if it is of this kind; return whether it was."""
        if self.words.tokens[self.position].kind != kind:
            return False
        self.position += 1
        return True

    def expect(self, kind: str) -> Token:
        """Consume and return the next token, which must be of this kind.

        Raises
        ------
        RelayError
            If it is of another kind.
        """
        if self.token.kind != kind:
            raise self.unexpected(_KINDS.get(kind, f"'{kind}'"))
        return self.take()

    def sequence(self, close: str, read: Callable[[], _T]) -> tuple[_T, ...]:
        """Read any number of elements with ``read``, separated by commas, up to ``close``."""
        values: list[_T] = []
        while not self.accept(close):
            values.append(read())
            if not self.accept(","):
                self.expect(close)
                break
        return tuple(values)

    def enter(self) -> None:
        """Enter a nesting level.

        Raises
        ------
        RelayError
            If there are too many levels.
        """
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self.error(
                f"This nests deeper than {MAX_NESTING} levels; bind what is inside to variables."
            )

    def leave(self) -> None:
        """Leave a nesting level."""
        self._depth -= 1

    def error(
        self, message: str, token: Token | None = None, kind: type[RelayError] = RelayError
    ) -> RelayError:
        """Return an error about a token, by default the next.

        Parameters
        ----------
        message : str
            The message.
        token : Token, optional
            The token.
        kind : type of RelayError
            The type of the error.
        """
        return self.source.error((token or self.token).offset, message, kind)

    def unexpected(self, wanted: str) -> RelayError:
        """Return an error that the next token is not the wanted one."""
        found = "the end" if self.token.kind == "end" else f"'{self.token.text}'"
        return self.error(f"Expected {wanted}, found {found}.")
