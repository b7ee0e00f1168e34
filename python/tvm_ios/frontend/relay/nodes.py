# SPDX-License-Identifier: Apache-2.0
"""The graph of objects that ``tvm.ir.save_json`` wrote, up to v0.19.

A JSON object lists nodes, which name each other by their numbers; number 0 is none. What a node
holds is a value under a name, and is a string whether it is a number of a node or not: which it is
depends on the node's type.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from ...support.errors import RelayError
from .tensors import decode

_N = TypeVar("_N", int, float)


@dataclass(frozen=True)
class Node:
    """One of the graph's nodes, as it is written.

    Attributes
    ----------
    type_key : str
        Its type, empty for none.
    fields : mapping of str to str
        What it holds.
    data : sequence of int
        The nodes of an array, or a map.
    keys : sequence of str or None
        A map's, one for each of ``data``; where it has none, ``data`` has keys and values in turn.
    text : str
        What it says of itself, if it is not made of fields: a string, an operator's name.
    """

    type_key: str
    fields: Mapping[str, str] = field(default_factory=dict)
    data: Sequence[int] = ()
    keys: Sequence[str] | None = None
    text: str = ""

    def string(self, name: str) -> str:
        """A field.

        Raises
        ------
        RelayError
            Where there is no such field.
        """
        value = self.fields.get(name)
        if value is None:
            raise RelayError(f"The JSON has a {self.type_key} without {name}; it is damaged.")
        return value

    def integer(self, name: str) -> int:
        """A field that is an integer.

        Raises
        ------
        RelayError
            Where it is none, or there is no such field.
        """
        return self._number(name, int)

    def real(self, name: str) -> float:
        """A field that is a number.

        Raises
        ------
        RelayError
            Where it is none, or there is no such field.
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
        What the JSON says.

    Attributes
    ----------
    root : int
        The node that all others are reached from.
    version : tuple of int
        The version of TVM that wrote it, such as (0, 19); (0, 19) where it does not say.

    Raises
    ------
    RelayError
        Where the document is no such graph.
    """

    def __init__(self, document: object) -> None:
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise RelayError("The JSON is no graph of TVM's objects: it has no list of nodes.")
        self._nodes = [_node(entry) for entry in document["nodes"]]
        self._tensors = document.get("b64ndarrays", [])
        if not isinstance(self._tensors, list):
            raise RelayError("The JSON's b64ndarrays are no list; it is damaged.")
        self._arrays: dict[int, np.ndarray] = {}
        root = document.get("root")
        if type(root) is not int:
            raise RelayError("The JSON's root is no number of a node; it is damaged.")
        self.root = root
        self.version = _version(document.get("attrs"))

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, index: int) -> Node:
        if not 0 <= index < len(self._nodes):
            raise RelayError(
                f"The JSON speaks of node {index}, and has {len(self._nodes)}; it is damaged."
            )
        return self._nodes[index]

    def tensor(self, index: int) -> np.ndarray:
        """A tensor, decoded once.

        Raises
        ------
        RelayError
            Where there is none of this number, or it is damaged.
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
        """What a node stands for, made from what those below it stand for.

        Without recursion, as networks are deep.

        Parameters
        ----------
        start : int
            The node.
        below : callable
            The nodes that one needs.
        build : callable
            What a node stands for, from what these stand for.
        done : dict
            What nodes stand for, where that is known; it is added to.

        Raises
        ------
        RelayError
            Where nodes need each other.
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
    """A node, whose parts are of the types that they should be."""
    damaged = RelayError("The JSON has a node that is none of TVM's; it is damaged.")
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
    """What a node says of itself; what is not printable is in base64, after its length."""
    text, coded = entry.get("repr_str", ""), entry.get("repr_b64", "")
    if not isinstance(text, str) or not isinstance(coded, str):
        raise damaged
    if not coded:
        return text
    try:
        return base64.b64decode(coded, validate=True)[8:].decode()
    except (binascii.Error, ValueError):
        raise damaged from None
