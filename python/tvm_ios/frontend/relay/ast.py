# SPDX-License-Identifier: Apache-2.0
"""Relay, as TVM had it up to v0.19: types, expressions, modules.

Expressions form a graph: what two others use is one object, and is computed once. They are
therefore compared by identity, types by value. What holds others shows itself without them: the
paths through a graph can be too many, and too long, to write down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

Attribute: TypeAlias = "bool | int | float | str | tuple[Attribute, ...] | np.ndarray | None"
"""An operator's attribute; lists are tuples, and integers and floats have no width."""


@dataclass(frozen=True)
class TensorType:
    """A tensor; no dimensions make it a scalar.

    Attributes
    ----------
    shape : tuple of int or None
        None is a dimension that is not known, Relay's ``?``.
    dtype : str
    """

    shape: tuple[int | None, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class TupleType:
    """Several values."""

    fields: tuple[Type, ...]


@dataclass(frozen=True)
class FuncType:
    """A function."""

    params: tuple[Type, ...]
    result: Type


Type: TypeAlias = "TensorType | TupleType | FuncType"


@dataclass(frozen=True, eq=False)
class Var:
    """A parameter, or what ``let`` binds.

    Attributes
    ----------
    name : str
        Without the ``%``; several variables may have the same.
    type : Type or None
        None where nothing is said.
    """

    name: str
    type: Type | None = None


@dataclass(frozen=True, eq=False)
class GlobalVar:
    """A function of the module, by its name without the ``@``."""

    name: str


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of Relay, such as ``nn.conv2d``."""

    name: str


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor whose value is known."""

    value: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Tuple:
    """Several expressions."""

    fields: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TupleGetItem:
    """One of several values, ``%0.1``."""

    tuple_value: Expr
    index: int


@dataclass(frozen=True, eq=False, repr=False)
class Call:
    """An operator or a function, applied.

    Attributes
    ----------
    callee : Operator, GlobalVar, Function or Var
    args : tuple of Expr
    attrs : mapping of str to Attribute
        Those that are written; the others have the operator's defaults.
    type : Type or None
        What the text says of the result, if anything.
    line : int or None
        Where it is written.
    """

    callee: Expr
    args: tuple[Expr, ...]
    attrs: Mapping[str, Attribute] = field(default_factory=dict)
    type: Type | None = None
    line: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Let:
    """``let %var = value; body``."""

    var: Var
    value: Expr
    body: Expr


@dataclass(frozen=True, eq=False, repr=False)
class If:
    """``if (condition) { then } else { otherwise }``."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Function:
    """A function, of the module or within an expression."""

    params: tuple[Var, ...]
    body: Expr
    result: Type | None = None
    attrs: Mapping[str, Attribute] = field(default_factory=dict)


Expr: TypeAlias = (
    "Var | GlobalVar | Operator | Constant | Tuple | TupleGetItem | Call | Let | If | Function"
)


@dataclass(frozen=True, eq=False, repr=False)
class Module:
    """Functions by their names, in the order in which they are written."""

    functions: Mapping[str, Function]
