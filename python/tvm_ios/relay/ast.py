# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of Relay, as TVM had it up to v0.19: types, expressions, modules.

Expressions form a graph: an expression with two users is one object and is computed once.
Expressions are therefore compared by identity, types by value. The ``repr`` of a compound
expression omits its parts, because a graph may contain too many and too long paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

Attribute: TypeAlias = "bool | int | float | str | tuple[Attribute, ...] | np.ndarray | None"
"""The attribute of an operator; lists are tuples, and integers and floats have no width."""


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor; a scalar has no dimensions.

    Attributes
    ----------
    shape : tuple of int or None
        The sizes; None is an unknown dimension, Relay's ``?``.
    dtype : str
        The data type.
    """

    shape: tuple[int | None, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class TupleType:
    """The type of a tuple."""

    fields: tuple[Type, ...]


@dataclass(frozen=True)
class FuncType:
    """The type of a function."""

    params: tuple[Type, ...]
    result: Type


Type: TypeAlias = "TensorType | TupleType | FuncType"


@dataclass(frozen=True, eq=False)
class Var:
    """A parameter, or a variable bound by ``let``.

    Attributes
    ----------
    name : str
        The name without the ``%``; several variables may have the same.
    type : Type or None
        The annotated type, if any.
    """

    name: str
    type: Type | None = None


@dataclass(frozen=True, eq=False)
class GlobalVar:
    """A reference to a function of the module, by its name without the ``@``."""

    name: str


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of Relay, such as ``nn.conv2d``."""

    name: str


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant tensor."""

    value: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Tuple:
    """A tuple of expressions."""

    fields: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TupleGetItem:
    """A projection of a tuple, ``%0.1``."""

    tuple_value: Expr
    index: int


@dataclass(frozen=True, eq=False, repr=False)
class Call:
    """A call of an operator or a function.

    Attributes
    ----------
    callee : Operator, GlobalVar, Function or Var
        The operator or function.
    args : tuple of Expr
        The arguments.
    attrs : mapping of str to Attribute
        The attributes in the text; others have the operator's defaults.
    type : Type or None
        The annotated type of the result, if any.
    line : int or None
        The line in the text.
    """

    callee: Expr
    args: tuple[Expr, ...]
    attrs: Mapping[str, Attribute] = field(default_factory=dict)
    type: Type | None = None
    line: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Let:
    """The expression ``let %var = value; body``."""

    var: Var
    value: Expr
    body: Expr


@dataclass(frozen=True, eq=False, repr=False)
class If:
    """The expression ``if (condition) { then } else { otherwise }``."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Function:
    """A function, of the module or inside an expression."""

    params: tuple[Var, ...]
    body: Expr
    result: Type | None = None
    attrs: Mapping[str, Attribute] = field(default_factory=dict)


Expr: TypeAlias = (
    "Var | GlobalVar | Operator | Constant | Tuple | TupleGetItem | Call | Let | If | Function"
)


@dataclass(frozen=True, eq=False, repr=False)
class Module:
    """The functions of a module by name, in their order in the text."""

    functions: Mapping[str, Function]
