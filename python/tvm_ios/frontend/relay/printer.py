# SPDX-License-Identifier: Apache-2.0
"""Relay's text form from a module, laid out and numbered as TVM v0.19 does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from ...support.errors import RelayError
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
"""What is written wherever it is used, and not bound to a graph variable."""


def to_text(module: Module) -> str:
    """A module's text form, from which `parse` makes an equal module.

    Variables of one name are told apart by numbers. Tensors are in the metadata section.

    Parameters
    ----------
    module : Module

    Raises
    ------
    RelayError
        When a variable is used where it is not bound, the module nests too deep, or the name of a
        function, operator or attribute cannot be written.
    ValueError
        When a constant is of a type that TVM's tensors do not have.
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
    """A module's text. Graph variables are numbered through all of its functions.

    An expression is made text when it is come to, and bound to a graph variable when the first that
    uses it is made text; one that is used once and ends a scope is not bound.

    Attributes
    ----------
    tensors : list of np.ndarray
        What the metadata section has to hold, in this order.
    """

    def __init__(self) -> None:
        self.tensors: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}  # of tensors, by identity
        self._bound = 0
        self._start()

    def _start(self) -> None:
        """Forget the variables of the function before."""
        self._uses: Counter[Expr] = Counter()
        self._names: dict[str, int] = {}  # each with the number that was last put after it
        self._words: dict[Expr, str] = {}  # what stands for an expression that is bound
        self._texts: dict[Expr, str] = {}  # of those that are not bound yet
        self._lines: list[str] = []  # of the scope that is being written

    def function(self, function: Function) -> str:
        """A function of the module, from its parameters on."""
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
        """An expression with what it needs bound before it, a line each.

        A let that is used elsewhere, too, is bound as others are, unless this is its ``own`` text.
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
        """An expression where it need not be bound, unless it is used elsewhere, too."""
        self._visit(expr)
        if expr in self._texts and self._uses[expr] == 1:
            return self._texts.pop(expr)
        return self._word(expr)

    def _visit(self, root: Expr) -> None:
        """Make text of an expression and all that it computes with."""
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
                # It may bind what others use, and so has to be written before these.
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
        """A value of a tuple; in parentheses where the dot would be part of a name or number."""
        word = self._word(expr.tuple_value)
        text = f"{word}.{expr.index}"
        alone = text in self._names or isinstance(expr.tuple_value, Constant | GlobalVar)
        return f"({word}).{expr.index}" if alone else text

    def _word(self, expr: Expr) -> str:
        """What stands for an expression that has text; it is bound if it has to be."""
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
        """A variable where it is bound, with a name that no other of the function has."""
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
    """A name that others rely on, and that can therefore not be changed."""
    if kind_of(name) != kind:
        raise RelayError(f"{name!r} is no name that Relay's text form can have.")
    return name


def _spelling(name: str) -> str:
    """A variable's name as the text form can have it, with its ``%``."""
    if kind_of(f"%{name}") == "local":
        return f"%{name}"
    name = re.sub(r"[^\w.]", "_", name, flags=re.ASCII)
    name = name if name[:1].isalpha() else f"v{name}"
    return f"%{re.sub(r'[.]+(?=[.]|$)', '_', name)}"
