# SPDX-License-Identifier: Apache-2.0
"""The printer of Relay's text form, with the layout and numbering of TVM v0.19."""

from __future__ import annotations

import re
from collections import Counter
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
    Var,
)
from .check import check_module
from .lexer import kind_of
from .literals import write_float, write_scalar, write_string
from .metadata import write_metadata
from .parser import VERSION
from .types import write_type
from .walk import operands, parts, postorder

_INLINE = (Var, GlobalVar, Operator, Constant)
"""Expressions that are written at each use and not bound to a graph variable."""


def to_text(module: Module) -> str:
    """Return a module's text form, from which `parse` creates an equal module.

    Variables of the same name are distinguished by numbers. Tensors are in the metadata section.

    Parameters
    ----------
    module : Module
        The module.

    Raises
    ------
    RelayError
        If a variable is used out of its scope, the module nests too deeply, or the name of a
        function, operator or attribute cannot be written.
    ValueError
        If a constant has a data type that TVM's tensors do not support.
    """
    check_module(module)
    printer = _Printer()
    functions = [
        f"def {_spelled('global', f'@{name}')}{printer.function(function)}\n"
        for name, function in module.functions.items()
    ]
    text = f'#[version = "{VERSION}"]\n' + "\n".join(functions)
    if printer.tensors:
        text += f"\n#[metadata]\n{write_metadata(printer.tensors)}"
    return text


class _Printer:
    """A printer of a module. Graph variables are numbered through all of its functions.

    An expression is formatted when it is reached, and bound to a graph variable when its first user
    is formatted. An expression with one use at the end of a scope is not bound.

    Attributes
    ----------
    tensors : list of np.ndarray
        The tensors of the metadata section, in order.
    """

    def __init__(self) -> None:
        self.tensors: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}  # of tensors, by id
        self._bound = 0
        self._start()

    def _start(self) -> None:
        """Reset the state of the previous function."""
        self._uses: Counter[Expr] = Counter()
        self._names: dict[str, int] = {}  # each with the last number appended to it
        self._words: dict[Expr, str] = {}  # references to bound expressions
        self._texts: dict[Expr, str] = {}  # of expressions that are not bound yet
        self._lines: list[str] = []  # of the current scope

    def function(self, function: Function) -> str:
        """Format a function of the module, from its parameters on."""
        self._start()
        for expr in postorder(function):
            self._uses.update(parts(expr))
        return self._function(function)

    def _function(self, function: Function) -> str:
        params = [self._declare(var) for var in function.params]
        params += self._attributes(function.attrs)
        result = f" -> {write_type(function.result)}" if function.result is not None else ""
        return f"({', '.join(params)}){result} {self._block(function.body)}"

    def _block(self, expr: Expr) -> str:
        return f"{{\n  {_indented(self._scope(expr))}\n}}"

    def _scope(self, expr: Expr, own: bool = False) -> str:
        """Format an expression, preceded by the bindings that it needs, one per line.

        A let with other users is bound like other expressions, unless this is its ``own`` text.
        """
        outer, self._lines = self._lines, []
        while isinstance(expr, Let) and (own or self._uses[expr] == 1):
            own = False
            var = self._declare(expr.var)
            self._lines.append(f"let {var} = {self._once(expr.value)};")
            expr = expr.body
        self._lines.append(self._once(expr))
        lines, self._lines = self._lines, outer
        return "\n".join(lines)

    def _once(self, expr: Expr) -> str:
        """Format an expression in place, or as a variable if it has other users."""
        self._visit(expr)
        if expr in self._texts and self._uses[expr] == 1:
            return self._texts.pop(expr)
        return self._word(expr)

    def _visit(self, root: Expr) -> None:
        """Format an expression and all its operands."""
        stack = [(root, False)]
        while stack:
            expr, entered = stack.pop()
            if isinstance(expr, _INLINE) or expr in self._texts or expr in self._words:
                continue
            if not entered:
                stack.append((expr, True))
                stack.extend((operand, False) for operand in reversed(operands(expr)))
                continue
            self._texts[expr] = self._text(expr)
            if isinstance(expr, If | Let | Function) and expr is not root:
                # It may bind expressions that others use, so it must precede them.
                self._word(expr)

    def _text(self, expr: Expr) -> str:
        if isinstance(expr, Call):
            args = [self._word(arg) for arg in expr.args] + self._attributes(expr.attrs)
            comment = f" /* ty={write_type(expr.type)} */" if expr.type is not None else ""
            return f"{self._word(expr.callee)}({', '.join(args)}){comment}"
        if isinstance(expr, Tuple):
            fields = [self._word(field) for field in expr.fields]
            return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"
        if isinstance(expr, TupleGetItem):
            return self._projection(expr)
        if isinstance(expr, Let):
            return f"(\n  {_indented(self._scope(expr, own=True))}\n)"
        if isinstance(expr, If):
            self._visit(expr.condition)
            condition = self._word(expr.condition)
            return f"if ({condition}) {self._block(expr.then)} else {self._block(expr.otherwise)}"
        assert isinstance(expr, Function), expr
        return f"fn {self._function(expr)}"

    def _projection(self, expr: TupleGetItem) -> str:
        """Format a projection, in parentheses if the dot would be part of a name or number."""
        word = self._word(expr.tuple_value)
        text = f"{word}.{expr.index}"
        alone = text in self._names or isinstance(expr.tuple_value, Constant | GlobalVar)
        return f"({word}).{expr.index}" if alone else text

    def _word(self, expr: Expr) -> str:
        """Return the text that refers to a formatted expression; bind it if necessary."""
        if isinstance(expr, GlobalVar):
            return _spelled("global", f"@{expr.name}")
        if isinstance(expr, Operator):
            return _spelled("name", expr.name)
        if isinstance(expr, Constant):
            return write_scalar(expr.value) or self._tensor(expr.value)
        if expr not in self._words:
            self._words[expr] = f"%{self._bound}"
            self._bound += 1
            self._lines.append(f"{self._words[expr]} = {self._texts.pop(expr)};")
        return self._words[expr]

    def _declare(self, var: Var) -> str:
        """Return a variable's declaration, with a name that is unique in the function."""
        name = unique = _spelling(var.name)
        while unique in self._names:
            self._names[name] += 1
            unique = f"{name}{self._names[name]}"
        self._names[unique] = 0
        self._words[var] = unique
        return f"{unique}: {write_type(var.type)}" if var.type is not None else unique

    def _tensor(self, value: np.ndarray) -> str:
        number = self._numbers.setdefault(id(value), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(value)
        return f"meta[relay.Constant][{number}]"

    def _attributes(self, attrs: Mapping[str, Attribute]) -> list[str]:
        return [f"{_spelled('name', k)}={self._attribute(value)}" for k, value in attrs.items()]

    def _attribute(self, value: Attribute) -> str:
        if value is None or isinstance(value, bool | int):
            return str(value)
        if isinstance(value, float):
            return write_float(value)
        if isinstance(value, str):
            return write_string(value)
        if isinstance(value, np.ndarray):
            return self._tensor(value)
        return f"[{', '.join(self._attribute(part) for part in value)}]"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _spelled(kind: str, name: str) -> str:
    """Return a name that others refer to, which therefore cannot be changed."""
    if kind_of(name) != kind:
        raise RelayError(f"{name!r} is not a valid name in Relay's text form.")
    return name


def _spelling(name: str) -> str:
    """Return a valid form of a variable's name, with its ``%``."""
    if kind_of(f"%{name}") == "local":
        return f"%{name}"
    name = re.sub(r"[^\w.]", "_", name, flags=re.ASCII)
    name = name if name[:1].isalpha() else f"v{name}"
    return f"%{re.sub(r'[.]+(?=[.]|$)', '_', name)}"
