# SPDX-License-Identifier: Apache-2.0
"""The lexer of Relay's text form.

Names may contain dots and digits: TVM's importers call a variable ``%features.0.weight``, and its
printer writes it so. The parser decides whether a dot is a projection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from .source import Source

_REFERENCES = {"ref", "ref_read", "ref_write"}
_KEYWORDS = {"let", "fn", "def", "if", "else", "type", "match", "extern", "free_var", *_REFERENCES}

_PART = r"(?:\w|/(?![/*]))"
_NAME = rf"[A-Za-z_]{_PART}*"
_LONG_NAME = rf"{_NAME}(?:\.{_PART}+)*"

_TOKEN = re.compile(
    rf"""
    (?P<space>[ \t\r\n]+|//[^\n]*)
  | (?P<comment>/\*)
  | (?P<graph>%\d{{1,18}})(?!\d)
  | (?P<local>%{_LONG_NAME})
  | (?P<global>@{_LONG_NAME})
  | (?P<number>-?(?:\d(?:[\w.]|(?<=[eE])[+-])*|(?:inf|nan)f(?:16|32|64)?\b))
  | (?P<meta>meta\[[^\]\s]*\]\[\d{{1,18}}\])
  | (?P<name>{_NAME}(?:\.{_NAME})*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<header>\#\[[^\]\n]*\])
  | (?P<mark>->|==|!=|<=|>=|[()\[\]{{}},;:=.<>+\-*/?])
    """,
    re.VERBOSE | re.ASCII,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_VERSION = re.compile(r'#\[\s*version\s*=\s*"([^"]*)"\s*\]')
_METADATA = re.compile(r"#\[\s*metadata\s*\]")


class Token(NamedTuple):
    """A token of the text.

    Attributes
    ----------
    kind : str
        The token itself for a keyword or a mark, else ``local``, ``global``, ``graph``, ``name``,
        ``number``, ``boolean``, ``string``, ``meta``, ``version``, or ``end``.
    text : str
        The text of the token; for a version the text between the quotes.
    offset : int
        The position of its first character in the text.
    """

    kind: str
    text: str
    offset: int


@dataclass(frozen=True)
class Words:
    """The tokens of a text.

    Attributes
    ----------
    tokens : list of Token
        The tokens; the last one is ``end``.
    types : dict of int to str
        The contents of comments of the form ``/* ty=... */``, by the index of the preceding token.
        They tell the type of the expression that ends there.
    metadata : int or None
        The offset after ``#[metadata]``.
    """

    tokens: list[Token]
    types: dict[int, str]
    metadata: int | None


def tokenize(source: Source) -> Words:
    """Split a text into tokens.

    Raises
    ------
    RelayError
        If a character begins no token, or a comment does not end.
    """
    text = source.text
    tokens: list[Token] = []
    types: dict[int, str] = {}
    at, end = 0, len(text)
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise source.error(at, _unknown(text[at]))
        kind, word = match.lastgroup, match[0]
        if kind == "comment":
            at = _skip_comment(source, at)
            comment = text[match.end() : at - 2].strip()
            if comment.startswith("ty="):
                types[len(tokens) - 1] = comment[3:].partition(" span=")[0]
            continue
        if kind == "header" and _METADATA.fullmatch(word):
            tokens.append(Token("end", "", at))
            return Words(tokens, types, match.end())
        if kind != "space":
            tokens.append(_token(source, match))
        at = match.end()
    tokens.append(Token("end", "", end))
    return Words(tokens, types, None)


def kind_of(word: str) -> str | None:
    """Return the kind of token that a text is; None if it is not a token."""
    match = _TOKEN.fullmatch(word)
    return _kind(match) if match else None


def _kind(match: re.Match[str]) -> str:
    group, word = match.lastgroup, match[0]
    assert group is not None
    if group == "mark" or word in _KEYWORDS:
        return word
    return "boolean" if word in ("True", "False") else group


def _token(source: Source, match: re.Match[str]) -> Token:
    if match.lastgroup != "header":
        return Token(_kind(match), match[0], match.start())
    version = _VERSION.fullmatch(match[0])
    if version is None:
        message = f"{match[0]} is neither the version nor the metadata section."
        raise source.error(match.start(), message)
    return Token("version", version[1], match.start())


def _skip_comment(source: Source, start: int) -> int:
    """Return the offset after the comment that begins at ``start``; comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(source.text, start):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    raise source.error(start, "This comment does not end; close it with */.")


def _unknown(character: str) -> str:
    if character == '"':
        return 'This string does not end; close it with " on the same line.'
    return f"{character!r} has no meaning in Relay's text form."
