# SPDX-License-Identifier: Apache-2.0
"""The parser of Relay's text form, by the grammar of TVM v0.19.

Texts that TVM would misinterpret are rejected: a graph variable that is bound twice in a function,
a variable that is used in its own value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ..support.errors import RelayError
from .ast import (
    Attribute,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Module,
    Operator,
    Tuple,
    TupleGetItem,
    Type,
    Var,
)
from .attributes import read_attributes
from .budget import Budget
from .calls import check_calls
from .cursor import MAX_NESTING, Cursor
from .lexer import Token, tokenize
from .literals import read_number
from .metadata import Metadata
from .objects import EXPRESSIONS, attributes
from .source import Source
from .types import read_type
from .variables import Variables

VERSION = "0.0.5"

_INDEX = re.compile(r"\d{1,9}", re.ASCII)

_INFIX = {
    "*": ("multiply", 12), "/": ("divide", 12),
    "+": ("add", 10), "-": ("subtract", 10),
    "<": ("less", 8), "<=": ("less_equal", 8), ">": ("greater", 8), ">=": ("greater_equal", 8),
    "==": ("equal", 7), "!=": ("not_equal", 7),
}  # fmt: skip
"""Infix operators and their precedence; all associate to the left."""

_REFUSED = {
    "match": "Pattern matching",
    "type": "A type definition",
    "extern": "An external type",
    "ref": "A reference",
    "ref_read": "A reference",
    "ref_write": "A reference",
    "free_var": "A free variable",
}


def parse_text(source: Source, budget: Budget) -> Module:
    """Read a module, or a single function, which becomes ``main``.

    Raises
    ------
    RelayError
        If the text is not valid, with line and column, or contains what cannot be converted:
        algebraic data types, references, generic and recursive functions.
    """
    return _Parser(source, budget).module()


class _Parser:
    """A recursive-descent parser; chains of bindings and of infix operators are loops."""

    def __init__(self, source: Source, budget: Budget) -> None:
        words = tokenize(source)
        self._source = source
        self._cursor = Cursor(source, words)
        self._metadata = Metadata(source, words.metadata, budget)
        self._described: dict[str, Type | None] = {}
        self._operators: dict[str, Operator] = {}
        self._variables = Variables()
        self._functions: dict[str, Function] = {}
        self._calls: dict[str, list[Token]] = {}  # in each function
        # State of the current function:
        self._bound: dict[int, Expr] = {}
        self._called: list[Token] = []

    def module(self) -> Module:
        """Parse the whole text."""
        cursor = self._cursor
        self._version()
        if cursor.accept("fn"):
            self._define("main")
            if cursor.token.kind != "end":
                raise cursor.unexpected("the end")
        while cursor.token.kind != "end":
            self._check_refused()
            cursor.expect("def")
            token = cursor.expect("global")
            if token.text[1:] in self._functions:
                raise cursor.error(f"There is a function {token.text} already; rename one.", token)
            self._define(token.text[1:])
        check_calls(
            {name: [call.text[1:] for call in calls] for name, calls in self._calls.items()},
            lambda caller, i, message: cursor.error(message, self._calls[caller][i]),
        )
        return Module(self._functions)

    def _define(self, name: str) -> None:
        """Parse a function of the module, from its parameters on."""
        self._called = self._calls[name] = []
        self._bound = {}
        self._functions[name] = self._function()

    def _version(self) -> None:
        cursor = self._cursor
        token = cursor.token
        if token.kind != "version":
            raise cursor.error(
                f'Relay\'s text form begins with #[version = "{VERSION}"]; save it with '
                "mod.astext(show_meta_data=True)."
            )
        if token.text != VERSION:
            raise cursor.error(
                f"This is version {token.text} of Relay's text form, and only {VERSION} can be "
                "read; save it again with TVM v0.8 to v0.19."
            )
        cursor.take()

    def _check_refused(self) -> None:
        """Raise RelayError if the next token begins a feature that cannot be converted."""
        if refused := _REFUSED.get(self._cursor.token.kind):
            raise self._cursor.error(f"{refused} cannot be converted.")

    def _function(self) -> Function:
        """Parse what follows ``def @name`` or ``fn``."""
        cursor = self._cursor
        if cursor.token.kind == "[":
            raise cursor.error("Generic functions cannot be converted; give their types first.")
        cursor.expect("(")
        mark = self._variables.mark()
        params: dict[str, Var] = {}
        attrs: Mapping[str, Attribute] = {}
        while not cursor.accept(")"):
            if cursor.token.kind == "name":
                attrs = read_attributes(cursor, self._metadata, ")")
                break
            param = self._parameter(params)
            params[param.name] = param
            if not cursor.accept(","):
                cursor.expect(")")
                break
        result = read_type(cursor, self._metadata) if cursor.accept("->") else None
        body = self._block()
        self._variables.reset(mark)
        return Function(tuple(params.values()), body, result, attrs)

    def _parameter(self, others: Mapping[str, Var]) -> Var:
        cursor = self._cursor
        token = cursor.expect("local")
        if token.text[1:] in others:
            raise cursor.error(f"There is a parameter {token.text} already; rename one.", token)
        if cursor.accept("{"):  # a device annotation
            read_attributes(cursor, self._metadata, "}")
        var = self._variable(token)
        self._variables.bind(var.name, var)
        return var

    def _variable(self, token: Token) -> Var:
        """Return a new variable, with the type in the text or in a comment."""
        cursor = self._cursor
        written = read_type(cursor, self._metadata) if cursor.accept(":") else None
        return Var(token.text[1:], written or self._comment())

    def _block(self) -> Expr:
        """Parse an expression in braces."""
        self._cursor.expect("{")
        body = self._expression()
        self._cursor.expect("}")
        return body

    def _expression(self) -> Expr:
        """Parse bindings and expressions, each with a semicolon, and the final expression."""
        cursor = self._cursor
        cursor.enter()
        mark = self._variables.mark()
        lets: list[tuple[Var, Expr]] = []
        while True:
            if cursor.token.kind == "graph" and cursor.following.kind == "=":
                self._graph_binding()
            elif cursor.token.kind == "let":
                lets.append(self._let())
            else:
                body = self._block() if cursor.token.kind == "{" else self._infix(0)
                if not cursor.accept(";"):
                    break
                lets.append((Var(""), body))
        self._variables.reset(mark)
        cursor.leave()
        for var, value in reversed(lets):
            body = Let(var, value, body)
        return body

    def _graph_binding(self) -> None:
        """Parse ``%0 = value;``, which names a part of the graph for the rest of the function."""
        cursor = self._cursor
        token = cursor.take()
        cursor.expect("=")
        value = self._infix(0)
        cursor.expect(";")
        number = int(token.text[1:])
        if number in self._bound:
            raise cursor.error(f"{token.text} is bound already in this function.", token)
        self._bound[number] = value

    def _let(self) -> tuple[Var, Expr]:
        """Parse ``let %name = value;``."""
        cursor = self._cursor
        cursor.take()
        token = cursor.expect("local")
        var = self._variable(token)
        cursor.expect("=")
        # Used in its own value, the variable would make it a recursive function.
        self._variables.bind(var.name, None)
        value = self._infix(0)
        cursor.expect(";")
        self._variables.bind(var.name, var)
        return var, value

    def _infix(self, tightest: int) -> Expr:
        """Parse calls joined by infix operators of a precedence above ``tightest``."""
        cursor = self._cursor
        left = self._call()
        while (found := _INFIX.get(cursor.token.kind)) and found[1] > tightest:
            line = self._source.line(cursor.take().offset)
            left = Call(self._operator(found[0]), (left, self._infix(found[1])), line=line)
        return left

    def _call(self) -> Expr:
        """Parse an expression and any number of argument lists."""
        cursor = self._cursor
        line = self._source.line(cursor.token.offset)
        callee = self._atom()
        while cursor.accept("("):
            args, attrs = self._arguments()
            callee = Call(callee, args, attrs, self._comment(), line)
        return callee

    def _arguments(self) -> tuple[tuple[Expr, ...], Mapping[str, Attribute]]:
        """Parse what follows the parenthesis: expressions, then attributes."""
        cursor = self._cursor
        args: list[Expr] = []
        while not cursor.accept(")"):
            kind, following = cursor.token.kind, cursor.following.kind
            if kind == "name" and following == "=":
                return tuple(args), read_attributes(cursor, self._metadata, ")")
            if kind == "meta" and following == ")":
                found = self._metadata.get(cursor, cursor.token)
                if isinstance(found, dict):
                    token = cursor.take()
                    cursor.take()
                    return tuple(args), self._stored_attributes(token, found)
            args.append(self._expression())
            if not cursor.accept(","):
                cursor.expect(")")
                break
        return tuple(args), {}

    def _stored_attributes(
        self, token: Token, found: Mapping[str, object]
    ) -> Mapping[str, Attribute]:
        """Return an operator's attributes that are an object of the metadata section."""
        try:
            return attributes(found, token.text)
        except RelayError as error:
            raise self._cursor.error(str(error), token, type(error)) from None

    def _comment(self) -> Type | None:
        """Return the type in a comment after the last token; None if it cannot be parsed."""
        text = self._cursor.words.types.get(self._cursor.position - 1)
        if text is None:
            return None
        if text not in self._described:
            self._described[text] = self._described_type(text)
        return self._described[text]

    def _described_type(self, text: str) -> Type | None:
        source = Source("", text)
        try:
            cursor = Cursor(source, tokenize(source))
            type_ = read_type(cursor, self._metadata)
            cursor.expect("end")
        except RelayError:  # a comment is optional
            return None
        return type_

    def _operator(self, name: str) -> Operator:
        return self._operators.setdefault(name, Operator(name))

    def _atom(self) -> Expr:
        """Parse the smallest expression and its projections."""
        cursor = self._cursor
        token = cursor.token
        if token.kind == "local":
            value = self._local(cursor.take())
        elif token.kind in ("name", "graph", "global", "meta", "number", "boolean"):
            value = self._word(cursor.take())
        elif cursor.accept("fn"):
            value = self._function()
        elif cursor.accept("if"):
            value = self._if()
        elif cursor.accept("("):
            value = self._parenthesis()
        else:
            self._check_refused()
            raise cursor.unexpected("an expression")
        while cursor.accept("."):
            value = TupleGetItem(value, self._index(cursor.expect("number")))
        return value

    def _word(self, token: Token) -> Expr:
        """Return the expression of one token, which has been consumed."""
        if token.kind == "name":
            return self._operator(token.text)
        if token.kind == "graph":
            value = self._bound.get(int(token.text[1:]))
            if value is None:
                raise self._cursor.error(f"{token.text} is not bound before this.", token)
            return value
        if token.kind == "global":
            self._called.append(token)
            return GlobalVar(token.text[1:])
        if token.kind == "boolean":
            return Constant(np.array(token.text == "True"))
        if token.kind == "number":
            try:
                return Constant(read_number(token.text))
            except ValueError as error:
                raise self._cursor.error(str(error), token) from None
        found = self._metadata.get(self._cursor, token)
        if not isinstance(found, EXPRESSIONS):
            raise self._cursor.error(f"{token.text} is not an expression.", token)
        return found

    def _local(self, token: Token) -> Expr:
        """Return a variable or projections of one; the scope decides which of them ``%a.0`` is."""
        name = token.text[1:]
        indices: list[int] = []
        while name not in self._variables:
            name, dot, place = name.rpartition(".")
            if not dot or not _INDEX.fullmatch(place) or len(indices) == MAX_NESTING:
                raise self._cursor.error(f"{token.text} is not bound before this.", token)
            indices.append(int(place))
        var = self._variables[name]
        if var is None:
            raise self._cursor.error(
                f"%{name} is used in its own value, which makes it recursive; recursive functions "
                "cannot be converted.",
                token,
            )
        value: Expr = var
        for index in reversed(indices):
            value = TupleGetItem(value, index)
        return value

    def _if(self) -> Expr:
        """Parse what follows ``if``."""
        cursor = self._cursor
        cursor.expect("(")
        condition = self._expression()
        cursor.expect(")")
        then = self._block()
        cursor.expect("else")
        return If(condition, then, self._block())

    def _parenthesis(self) -> Expr:
        """Parse what follows a parenthesis: an expression or a tuple."""
        cursor = self._cursor
        if cursor.accept(")"):
            return Tuple(())
        first = self._expression()
        if cursor.accept(")"):
            return first
        cursor.expect(",")
        return Tuple((first, *cursor.sequence(")", self._expression)))

    def _index(self, token: Token) -> int:
        if not _INDEX.fullmatch(token.text):
            raise self._cursor.error(f"{token.text} is not an index of a tuple.", token)
        return int(token.text)
