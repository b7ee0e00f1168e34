# SPDX-License-Identifier: Apache-2.0
"""Parsing of the attributes of operators and functions."""

from __future__ import annotations

from .ast import Attribute
from .cursor import Cursor
from .lexer import Token
from .literals import read_attribute, read_string
from .metadata import Metadata
from .objects import Device, as_attribute

_NONE = ("None", "nullptr")


def read_attributes(cursor: Cursor, metadata: Metadata, close: str) -> dict[str, Attribute]:
    """Read ``name=value, ...`` up to and including ``close``.

    Attributes that assign a device are dropped.

    Parameters
    ----------
    cursor : Cursor
        The position in the text.
    metadata : Metadata
        The metadata section.
    close : str
        The closing token.

    Raises
    ------
    RelayError
        If the text has another form, or gives an attribute twice.
    """
    found: dict[str, Attribute] = {}

    def read() -> None:
        name = cursor.expect("name")
        cursor.expect("=")
        if name.text in found:
            raise cursor.error(f"The attribute {name.text} is given twice.", name)
        value = _value(cursor, metadata)
        if not isinstance(value, Device):
            found[name.text] = value

    cursor.sequence(close, read)
    return found


def _value(cursor: Cursor, metadata: Metadata) -> Attribute | Device:
    value: Attribute | Device
    cursor.enter()
    token = cursor.take() if cursor.token.kind != "end" else cursor.token
    if token.kind == "[":
        value = cursor.sequence("]", lambda: _element(cursor, metadata))
    elif token.kind == "(":
        value = _value(cursor, metadata)
        cursor.expect(")")
    else:
        value = _single(cursor, metadata, token)
    cursor.leave()
    return value


def _element(cursor: Cursor, metadata: Metadata) -> Attribute:
    token = cursor.token
    value = _value(cursor, metadata)
    if isinstance(value, Device):
        raise cursor.error("A list cannot contain a device.", token)
    return value


def _single(cursor: Cursor, metadata: Metadata, token: Token) -> Attribute | Device:
    """Return a value of one token, which has been consumed."""
    if token.kind == "meta":
        return _stored(cursor, metadata, token)
    if token.kind == "boolean":
        return token.text == "True"
    if token.kind == "name" and token.text in _NONE:
        return None
    try:
        if token.kind == "number":
            return read_attribute(token.text)
        if token.kind == "string":
            return read_string(token.text)
    except ValueError as error:
        raise cursor.error(str(error), token) from None
    found = "the end" if token.kind == "end" else f"'{token.text}'"
    raise cursor.error(f"Expected an attribute's value, found {found}.", token)


def _stored(cursor: Cursor, metadata: Metadata, token: Token) -> Attribute | Device:
    """Return a value of the metadata section."""
    try:
        return as_attribute(metadata.get(cursor, token))
    except ValueError as error:
        raise cursor.error(f"{token.text} is a {error}, which cannot be read.", token) from None
