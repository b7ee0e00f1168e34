# SPDX-License-Identifier: Apache-2.0
"""Parsing and formatting of types."""

from __future__ import annotations

from .ast import FuncType, TensorType, TupleType, Type
from .cursor import Cursor
from .literals import DTYPE, read_attribute
from .metadata import Metadata


def read_type(cursor: Cursor, metadata: Metadata) -> Type | None:
    """Parse ``Tensor[(1, 3), float32]``, ``float32``, ``(A, B)``, ``fn (A, B) -> C`` or ``_``.

    Returns
    -------
    Type or None
        None stands for ``_``.

    Raises
    ------
    RelayError
        If the text is none of these.
    """
    cursor.enter()
    type_ = _type(cursor, metadata)
    cursor.leave()
    return type_


def _type(cursor: Cursor, metadata: Metadata) -> Type | None:
    token = cursor.token
    if cursor.accept("("):
        return TupleType(cursor.sequence(")", lambda: _whole_type(cursor, metadata)))
    if cursor.accept("fn"):
        cursor.expect("(")
        params = cursor.sequence(")", lambda: _whole_type(cursor, metadata))
        cursor.expect("->")
        return FuncType(params, _whole_type(cursor, metadata))
    if token.kind == "name":
        cursor.take()
        if token.text == "_":
            return None
        if token.text == "Tensor":
            return _tensor(cursor, metadata)
        if DTYPE.fullmatch(token.text):
            return TensorType((), token.text)
        raise cursor.error(f"{token.text} is not a type that can be converted.", token)
    if token.kind == "ref":
        raise cursor.error("References cannot be converted.")
    raise cursor.unexpected("a type")


def _whole_type(cursor: Cursor, metadata: Metadata) -> Type:
    """Parse a type inside another one."""
    token = cursor.token
    type_ = read_type(cursor, metadata)
    if type_ is None:
        raise cursor.error("A part of a type cannot be left open; write it out.", token)
    return type_


def _tensor(cursor: Cursor, metadata: Metadata) -> TensorType:
    """Parse what follows ``Tensor``."""
    cursor.expect("[")
    cursor.expect("(")
    shape = cursor.sequence(")", lambda: _dimension(cursor, metadata))
    cursor.expect(",")
    token = cursor.expect("name")
    if not DTYPE.fullmatch(token.text):
        raise cursor.error(f"{token.text} is not the type of a tensor's elements.", token)
    cursor.expect("]")
    return TensorType(shape, token.text)


def _dimension(cursor: Cursor, metadata: Metadata) -> int | None:
    """Parse a number, ``?``, or a variable of the metadata section."""
    if cursor.accept("?"):
        return None
    token = cursor.token
    if token.kind == "meta":
        cursor.take()
        size = metadata.get(cursor, token)
        if size is not None and type(size) is not int:
            raise cursor.error(f"{token.text} is not a dimension.", token)
        return size
    cursor.expect("number")
    try:
        size = read_attribute(token.text)
    except ValueError as error:
        raise cursor.error(str(error), token) from None
    if isinstance(size, float) or size < 0:
        raise cursor.error(f"{token.text} is not a dimension.", token)
    return size


def write_type(type_: Type) -> str:
    """Format a type."""
    if isinstance(type_, TensorType):
        if not type_.shape:
            return type_.dtype
        shape = ", ".join("?" if size is None else str(size) for size in type_.shape)
        return f"Tensor[({shape}), {type_.dtype}]"
    if isinstance(type_, TupleType):
        fields = [write_type(field) for field in type_.fields]
        return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"
    params = ", ".join(write_type(param) for param in type_.params)
    return f"fn ({params}) -> {write_type(type_.result)}"
