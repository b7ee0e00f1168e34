# SPDX-License-Identifier: Apache-2.0
"""The graph of objects that ``tvm.ir.save_json`` wrote, up to v0.19.

A JSON object lists nodes, which refer to each other by index; index 0 is null. The fields of a node
are strings, also those that are indices of nodes: the node's type tells which.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from ..support.errors import RelayError
from .tensors import decode

_N = TypeVar("_N", int, float)


@dataclass(frozen=True)
class Node:
    """A node of the graph, as it is written.

    Attributes
    ----------
    type_key : str
        Its type; empty for null.
    fields : mapping of str to str
        Its fields.
    data : sequence of int
        The nodes of an array or a map.
    keys : sequence of str or None
        The keys of a map, one for each element of ``data``; without them ``data`` has keys and
        values in turn.
    text : str
        The text of a node without fields: a string, an operator's name.
    """

    type_key: str
    fields: Mapping[str, str] = field(default_factory=dict)
    data: Sequence[int] = ()
    keys: Sequence[str] | None = None
    text: str = ""

    def string(self, name: str) -> str:
        """Return a field.

        Raises
        ------
        RelayError
            If there is no such field.
        """
        value = self.fields.get(name)
        if value is None:
            raise RelayError(f"The JSON has a {self.type_key} without {name}; it is damaged.")
        return value

    def integer(self, name: str) -> int:
        """Return a field that is an integer.

        Raises
        ------
        RelayError
            If it is not, or there is no such field.
        """
        return self._number(name, int)

    def real(self, name: str) -> float:
        """Return a field that is a number.

        Raises
        ------
        RelayError
            If it is not, or there is no such field.
        """
        return self._number(name, float)

    def _number(self, name: str, read: Callable[[str], _N]) -> _N:
        value = self.string(name)
        try:
            return read(value)
        except ValueError:
            raise RelayError(
                f"The JSON has a {self.type_key} whose {name} is {value[:40]!r}, not a number; it "
                "is damaged."
            ) from None


class Nodes:
    """The nodes of a JSON document.

    Parameters
    ----------
    document : object
        The parsed JSON.

    Attributes
    ----------
    root : int
        The node from which all others are reached.
    version : tuple of int
        The version of TVM that wrote it, such as (0, 19), which is also the default.

    Raises
    ------
    RelayError
        If the document is not such a graph.
    """

    def __init__(self, document: object) -> None:
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise RelayError("The JSON is not a graph of TVM's objects: it has no list of nodes.")
        self._nodes = [_node(entry) for entry in document["nodes"]]
        self._tensors = document.get("b64ndarrays", [])
        if not isinstance(self._tensors, list):
            raise RelayError("The JSON's b64ndarrays are not a list; it is damaged.")
        self._arrays: dict[int, np.ndarray] = {}
        root = document.get("root")
        if type(root) is not int:
            raise RelayError("The JSON's root is not the index of a node; it is damaged.")
        self.root = root
        self.version = _version(document.get("attrs"))

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, index: int) -> Node:
        if not 0 <= index < len(self._nodes):
            raise RelayError(
                f"The JSON refers to node {index} of {len(self._nodes)}; it is damaged."
            )
        return self._nodes[index]

    def tensor(self, index: int) -> np.ndarray:
        """Return a tensor, which is decoded once.

        Raises
        ------
        RelayError
            If there is no such tensor, or it is damaged.
        """
        if index not in self._arrays:
            if not 0 <= index < len(self._tensors) or not isinstance(self._tensors[index], str):
                raise RelayError(f"The JSON has no tensor {index}; it is damaged.")
            try:
                self._arrays[index] = decode(self._tensors[index])
            except ValueError as error:
                raise RelayError(f"Tensor {index} of the JSON is damaged: {error}") from None
        return self._arrays[index]

    def fold(
        self,
        start: int,
        below: Callable[[Node], Sequence[int]],
        build: Callable[[Node, Sequence[object]], object],
        done: dict[int, object],
    ) -> object:
        """Compute the value of a node from the values of the nodes below it.

        This does not recurse, because networks are deep.

        Parameters
        ----------
        start : int
            The node.
        below : callable
            Returns the nodes that a node depends on.
        build : callable
            Returns the value of a node, given the values of these nodes.
        done : dict
            The known values, by node; new values are added.

        Raises
        ------
        RelayError
            If nodes depend on each other.
        """
        needs: dict[int, Sequence[int]] = {}
        stack = [start]
        while stack:
            index = stack[-1]
            if index in done:
                stack.pop()
            elif index in needs:
                done[index] = build(self[index], [done[i] for i in needs.pop(index)])
                stack.pop()
            else:
                needs[index] = below(self[index])
                for i in reversed(needs[index]):
                    if i in needs:
                        raise RelayError(f"Node {i} of the JSON is part of itself; it is damaged.")
                    if i not in done:
                        stack.append(i)
        return done[start]


def _version(attributes: object) -> tuple[int, int]:
    written = attributes.get("tvm_version") if isinstance(attributes, dict) else None
    found = re.match(r"(\d{1,4})\.(\d{1,4})", written) if isinstance(written, str) else None
    return (int(found[1]), int(found[2])) if found else (0, 19)


def _node(entry: object) -> Node:
    """Return a node, after checking the types of its parts."""
    damaged = RelayError("The JSON has a node that is not one of TVM's; it is damaged.")
    if not isinstance(entry, dict):
        raise damaged
    type_key, fields = entry.get("type_key", ""), entry.get("attrs", {})
    data, keys = entry.get("data", []), entry.get("keys")
    if not isinstance(type_key, str) or not isinstance(fields, dict) or not isinstance(data, list):
        raise damaged
    if not _strings(list(fields.values())):
        raise damaged
    if not all(type(index) is int for index in data):
        raise damaged
    if keys is None:
        if type_key == "Map" and len(data) % 2:
            raise damaged
    elif not _strings(keys) or len(keys) != len(data):
        raise damaged
    return Node(type_key, fields, data, keys, _text(entry, damaged))


def _strings(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _text(entry: dict[str, object], damaged: RelayError) -> str:
    """Return the text of a node; unprintable text is in base64, after its length."""
    text, coded = entry.get("repr_str", ""), entry.get("repr_b64", "")
    if not isinstance(text, str) or not isinstance(coded, str):
        raise damaged
    if not coded:
        return text
    try:
        return base64.b64decode(coded, validate=True)[8:].decode()
    except (binascii.Error, ValueError):
        raise damaged from None
