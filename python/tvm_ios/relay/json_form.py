# SPDX-License-Identifier: Apache-2.0
"""Parsing of Relay's JSON form, which ``tvm.ir.save_json`` wrote from v0.8 to v0.19."""

from __future__ import annotations

from ..support.errors import RelayError
from .ast import Function, GlobalVar, Module
from .budget import Budget
from .calls import check_calls
from .metadata import load_json
from .nodes import Node, Nodes
from .objects import Objects, readable, unread
from .source import Source
from .walk import parts, postorder

_MODULE = "IRModule"


def parse_json(source: Source, budget: Budget) -> Module:
    """Read a module, or a single function, which becomes ``main``.

    Raises
    ------
    RelayError
        If the JSON is not such a module, is damaged, or contains what cannot be converted.
    """
    nodes = Nodes(load_json(source, 0))
    root = nodes[nodes.root]
    _check_attributes(nodes)
    objects = Objects(nodes, budget)
    if root.type_key == _MODULE:
        functions = _functions(objects.get(root.integer("functions")))
    else:
        functions = _functions({GlobalVar("main"): objects.get(nodes.root)})
    check_calls(
        {name: _called(name, function, budget) for name, function in functions.items()},
        lambda caller, _, message: RelayError(f"In @{caller}: {message}"),
    )
    return Module(functions)


def _functions(found: object) -> dict[str, Function]:
    """Return the functions by name, in TVM's printing order."""
    if not isinstance(found, dict):
        raise RelayError("The JSON's functions are not a map; it is damaged.")
    functions: dict[str, Function] = {}
    for var, function in found.items():
        name = var.name if isinstance(var, GlobalVar) else str(var)
        if not isinstance(function, Function):
            raise RelayError(
                f"{name} is a {unread(function)}, not a function of Relay; save the module before "
                "it is lowered."
            )
        if name in functions:
            raise RelayError(f"The JSON has two functions {name}; it is damaged.")
        functions[name] = function
    return dict(sorted(functions.items()))


def _called(name: str, function: Function, budget: Budget) -> list[str]:
    """Return the functions that a function calls; functions may share expressions."""
    called = []
    for expr in postorder(function):
        budget.spend("parts", 1 + len(parts(expr)), f"@{name}")
        if isinstance(expr, GlobalVar):
            called.append(expr.name)
    return called


def _check_attributes(nodes: Nodes) -> None:
    """Check that the attributes of all operators are known; the error names all that are not."""
    unknown: set[str] = set()
    for i in range(len(nodes)):
        if nodes[i].type_key == "relay.Call" and not readable(_attributes(nodes, nodes[i])):
            unknown.add(nodes[nodes[i].integer("op")].text or "a function")
    if unknown:
        raise RelayError(
            f"The attributes of {', '.join(sorted(unknown))} are not known, so that "
            f"{'they' if len(unknown) > 1 else 'it'} cannot be converted."
        )


def _attributes(nodes: Nodes, call: Node) -> str:
    """Return the type of a call's attributes."""
    return nodes[call.integer("attrs")].type_key
