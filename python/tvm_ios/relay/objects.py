# SPDX-License-Identifier: Apache-2.0
"""Conversion of the nodes of TVM's JSON to expressions, types and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..frontend.limits import MAX_RANK
from ..support.errors import RelayError
from .ast import (
    Attribute,
    Call,
    Constant,
    Expr,
    Function,
    FuncType,
    GlobalVar,
    If,
    Let,
    Operator,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
)
from .budget import Budget
from .literals import DTYPE
from .nodes import Node, Nodes
from .operator_attributes import known, read, references


@dataclass(frozen=True)
class Device:
    """A device annotation, which is ignored."""


@dataclass(frozen=True)
class Unknown:
    """An object that is not supported.

    It causes an error only if it is used, because modules contain many unused objects.
    """

    type_key: str


EXPRESSIONS = (
    Var, GlobalVar, Operator, Constant, Tuple, TupleGetItem, Call, Let, If, Function
)  # fmt: skip
_TYPES = (TensorType, TupleType, FuncType)
_DEEPEST_LIST = 30
_MOST = 1 << 60


class Objects:
    """The objects of the nodes of a graph, each created once.

    Parameters
    ----------
    nodes : Nodes
        The graph.
    budget : Budget
        The limits.
    """

    def __init__(self, nodes: Nodes, budget: Budget) -> None:
        self._nodes = nodes
        self._budget = budget
        self._done: dict[int, object] = {0: None}
        self._sizes: dict[int, int] = {}  # of lists and maps, by id; `_done` keeps them alive

    def get(self, index: int) -> object:
        """Return the object of a node.

        Returns
        -------
        object
            An expression or type of `ast`, an attribute's value, a dict for a map or an operator's
            attributes, None, `Device`, or `Unknown`.

        Raises
        ------
        RelayError
            If the graph is damaged, or contains what cannot be converted.
        """
        return self._nodes.fold(index, _below, self._build, self._done)

    def size(self, value: object) -> int:
        """Return the number of parts of an object if its lists are expanded."""
        return self._sizes.get(id(value), 1)

    def _build(self, node: Node, below: Sequence[object]) -> object:
        size = min(1 + sum(map(self.size, below)), _MOST)  # limits the number of digits
        if node.type_key != "Array":  # its parts stay shared
            self._budget.spend("parts", size, f"A {node.type_key} of the JSON")
        value = self._built(node, below)
        if isinstance(value, tuple | dict):
            self._sizes.setdefault(id(value), size)
        return value

    def _built(self, node: Node, below: Sequence[object]) -> object:
        if known(node.type_key):
            referred = dict(zip(_references(node), below, strict=True))
            return read(node, referred, self._nodes.version)
        if node.type_key == "relay.Constant":
            return Constant(self._nodes.tensor(node.integer("data")))
        builder = _BUILDERS.get(node.type_key)
        return builder[1](node, below) if builder else Unknown(node.type_key)


def _below(node: Node) -> list[int]:
    """Return the nodes that a node depends on."""
    if node.type_key in ("Array", "Map"):
        return list(node.data)
    if readable(node.type_key):
        return [node.integer(name) for name in _references(node)]
    return []


def _references(node: Node) -> Sequence[str]:
    """Return the fields that are indices of nodes."""
    if node.type_key in _BUILDERS:
        return _BUILDERS[node.type_key][0]
    return references(node)


def readable(type_key: str) -> bool:
    """Return whether objects of this type are supported."""
    return type_key in _BUILDERS or known(type_key)


def unread(value: object) -> str:
    """Return the name of an unexpected object, for messages."""
    return value.type_key if isinstance(value, Unknown) else type(value).__name__


def as_attribute(value: object, depth: int = 0) -> Attribute | Device:
    """Return an object as an attribute's value; the value of a constant is its tensor.

    Parameters
    ----------
    value : object
        The object.
    depth : int
        The number of lists that contain it.

    Raises
    ------
    ValueError
        If it cannot be an attribute; the message is the name of its type.
    """
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, tuple):
        if depth == _DEEPEST_LIST:
            raise ValueError("list that nests too deeply")
        return tuple(_part(part, depth + 1) for part in value)
    if value is None or isinstance(value, bool | int | float | str | np.ndarray | Device):
        return value
    raise ValueError(unread(value))


def _part(value: object, depth: int) -> Attribute:
    part = as_attribute(value, depth)
    if isinstance(part, Device):
        raise ValueError("VirtualDevice")
    return part


def attributes(values: Mapping[str, object], of: str) -> dict[str, Attribute]:
    """Return attributes by name, without those that assign a device.

    Parameters
    ----------
    values : mapping of str to object
        The objects by name.
    of : str
        The owner of the attributes, for messages.

    Raises
    ------
    RelayError
        If an object cannot be an attribute.
    """
    found: dict[str, Attribute] = {}
    for name, value in values.items():
        try:
            attribute = as_attribute(value)
        except ValueError as error:
            raise RelayError(
                f"The attribute {name} of {of} is a {error}, which cannot be read."
            ) from None
        if not isinstance(attribute, Device):
            found[name] = attribute
    return found


def _expression(value: object, where: str) -> Expr:
    if isinstance(value, EXPRESSIONS):
        return value
    raise RelayError(f"{where} is a {unread(value)}, which cannot be converted.")


def _type(value: object, where: str) -> Type | None:
    if value is None or isinstance(value, _TYPES):
        return value
    raise RelayError(f"The type of {where} is a {unread(value)}, which cannot be converted.")


def _inferred(value: object) -> Type | None:
    """Return a type that TVM inferred; None if it is not supported."""
    return value if isinstance(value, _TYPES) else None


def _sequence(value: object, where: str) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise RelayError(f"The JSON has no list where {where} should be; it is damaged.")
    return value


def _expressions(value: object, where: str) -> tuple[Expr, ...]:
    return tuple(_expression(part, "One of " + where) for part in _sequence(value, where))


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise RelayError(f"The JSON has a {what} without a name; it is damaged.")
    return value


def _map(node: Node, below: Sequence[object]) -> object:
    if node.keys is not None:
        return dict(zip(node.keys, below, strict=True))
    keys = below[::2]
    if not all(isinstance(key, str | GlobalVar) for key in keys):
        return Unknown("Map")
    return dict(zip(keys, below[1::2], strict=True))


def _integer(node: Node, _: Sequence[object]) -> object:
    value = node.integer("value")
    return bool(value) if node.string("dtype") == "bool" else value


def _boxed(node: Node, _: Sequence[object]) -> object:
    """Return a boxed number, which v0.17 and later use for some attributes."""
    try:
        if node.type_key == "runtime.BoxInt":
            return int(node.text)
        if node.type_key == "runtime.BoxFloat":
            return float(node.text)
    except ValueError:
        raise RelayError(f"The JSON has a {node.type_key} that is {node.text[:40]!r}.") from None
    return node.text == "true"


def _tensor_type(node: Node, below: Sequence[object]) -> object:
    shape = below[0]
    if not isinstance(shape, tuple) or len(shape) > MAX_RANK:
        return Unknown(node.type_key)
    if not all(size is None or (type(size) is int and size >= 0) for size in shape):
        return Unknown(node.type_key)
    dtype = node.string("dtype")
    if not DTYPE.fullmatch(dtype):
        return Unknown(f"tensor of {dtype}")
    return TensorType(shape, dtype)


def _tuple_type(node: Node, below: Sequence[object]) -> object:
    fields = below[0]
    if not isinstance(fields, tuple) or not all(isinstance(part, _TYPES) for part in fields):
        return Unknown(node.type_key)
    return TupleType(fields)


def _function_type(node: Node, below: Sequence[object]) -> object:
    params, result = below
    if not isinstance(params, tuple) or not isinstance(result, _TYPES):
        return Unknown(node.type_key)
    if not all(isinstance(part, _TYPES) for part in params):
        return Unknown(node.type_key)
    return FuncType(params, result)


def _var(_: Node, below: Sequence[object]) -> object:
    name, annotation, found = below
    name = _name(name, "variable")
    return Var(name, _type(annotation, f"%{name}") or _inferred(found))


def _call(_: Node, below: Sequence[object]) -> object:
    callee, args, values, found = below
    callee = _expression(callee, "What is called")
    name = callee.name if isinstance(callee, Operator | GlobalVar) else "a function"
    if values is not None and not isinstance(values, dict):
        raise RelayError(f"The attributes of {name} are a {unread(values)}, which cannot be read.")
    return Call(
        callee,
        _expressions(args, f"the arguments of {name}"),
        attributes(values or {}, name),
        _inferred(found),
    )


def _function(_: Node, below: Sequence[object]) -> object:
    params, body, result, generic, values = below
    if generic:
        raise RelayError("Generic functions cannot be converted; give their types first.")
    parameters = _sequence(params, "a function's parameters")
    variables = tuple(parameter for parameter in parameters if isinstance(parameter, Var))
    if len(variables) != len(parameters):
        raise RelayError("A function's parameter is not a variable; the JSON is damaged.")
    if values is not None and not isinstance(values, dict):
        raise RelayError("A function's attributes are not a map; the JSON is damaged.")
    return Function(
        variables,
        _expression(body, "A function's body"),
        _type(result, "a function's result"),
        attributes(values or {}, "a function"),
    )


def _let(_: Node, below: Sequence[object]) -> object:
    var, value, body = below
    if not isinstance(var, Var):
        raise RelayError("A let binds what is not a variable; the JSON is damaged.")
    return Let(var, _expression(value, "A let's value"), _expression(body, "A let's body"))


def _if(_: Node, below: Sequence[object]) -> object:
    condition, then, otherwise = (_expression(part, "A part of an if") for part in below)
    return If(condition, then, otherwise)


def _projection(node: Node, below: Sequence[object]) -> object:
    index = node.integer("index")
    if index < 0:
        raise RelayError(f"The JSON takes value {index} of a tuple; it is damaged.")
    return TupleGetItem(_expression(below[0], "What a projection takes from"), index)


def _nothing(_: Node, below: Sequence[object]) -> object:
    return None


_Builder = Callable[[Node, Sequence[object]], object]
_BUILDERS: dict[str, tuple[tuple[str, ...], _Builder]] = {
    "": ((), _nothing),
    "Array": ((), lambda _, below: tuple(below)),
    "Map": ((), _map),
    "runtime.String": ((), lambda node, _: node.text),
    "IntImm": ((), _integer),
    "FloatImm": ((), lambda node, _: node.real("value")),
    "runtime.BoxInt": ((), _boxed),
    "runtime.BoxFloat": ((), _boxed),
    "runtime.BoxBool": ((), _boxed),
    "VirtualDevice": ((), lambda *_: Device()),
    # Unknown dimensions; equalities among them are dropped.
    "tir.Any": ((), _nothing),
    "tir.Var": ((), _nothing),
    "tir.SizeVar": ((), _nothing),
    "relay.TensorType": (("shape",), _tensor_type),
    "TupleType": (("fields",), _tuple_type),
    "FuncType": (("arg_types", "ret_type"), _function_type),
    "IncompleteType": ((), _nothing),
    "DictAttrs": (("__dict__",), lambda _, below: below[0]),
    "Op": ((), lambda node, _: Operator(_name(node.text or None, "operator"))),
    "GlobalVar": (("name_hint",), lambda _, below: GlobalVar(_name(below[0], "function"))),
    "relay.Id": (("name_hint",), lambda _, below: below[0]),
    "relay.Var": (("vid", "type_annotation", "_checked_type_"), _var),
    "relay.Constant": ((), _nothing),  # created by Objects, which has the tensors
    "relay.Tuple": (
        ("fields",),
        lambda _, below: Tuple(_expressions(below[0], "a tuple's values")),
    ),
    "relay.TupleGetItem": (("tuple_value",), _projection),
    "relay.Call": (("op", "args", "attrs", "_checked_type_"), _call),
    "relay.Let": (("var", "value", "body"), _let),
    "relay.If": (("cond", "true_branch", "false_branch"), _if),
    "relay.Function": (("params", "body", "ret_type", "type_params", "attrs"), _function),
}
