# SPDX-License-Identifier: Apache-2.0
"""The section after ``#[metadata]``, whose objects a text refers to as ``meta[type][number]``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np

from ..support.errors import RelayError
from .budget import Budget
from .cursor import Cursor
from .lexer import Token
from .nodes import Nodes
from .objects import Objects
from .source import Source
from .tensors import encode

_REFERENCE = re.compile(r"meta\[(.*)\]\[(\d+)\]", re.ASCII)


class Metadata:
    """The metadata section of a text.

    Parameters
    ----------
    source : Source
        The text.
    offset : int or None
        The beginning of the section's JSON; None if there is no section.
    budget : Budget
        The limits.

    Raises
    ------
    RelayError
        If the section is damaged.
    """

    def __init__(self, source: Source, offset: int | None, budget: Budget) -> None:
        self._budget = budget
        self._lists: dict[str, list[int]] = {}
        self._objects: Objects | None = None
        if offset is None:
            return
        try:
            nodes = Nodes(load_json(source, offset))
            self._lists = _lists(nodes)
        except RelayError as error:
            if error.line is not None:
                raise
            raise source.error(offset, f"The metadata section cannot be read: {error}") from None
        self._objects = Objects(nodes, budget)

    def get(self, cursor: Cursor, token: Token) -> object:
        """Return the object of a reference; see `Objects.get`.

        Raises
        ------
        RelayError
            If the section has no such object, or it is damaged; the error points to the reference.
        """
        match = _REFERENCE.fullmatch(token.text)
        assert match is not None
        if self._objects is None:
            raise cursor.error(
                "The text has no metadata section; save it with mod.astext(show_meta_data=True).",
                token,
            )
        members = self._lists.get(match[1], [])
        index = int(match[2])
        if index >= len(members):
            raise cursor.error(
                f"The metadata section has {len(members)} objects of this type.", token
            )
        try:
            found = self._objects.get(members[index])
            self._budget.spend("parts", self._objects.size(found), "It")
        except RelayError as error:
            message = f"{token.text} cannot be read: {error}"
            raise cursor.error(message, token, type(error)) from None
        return found


def _lists(nodes: Nodes) -> dict[str, list[int]]:
    """Return the indices of the nodes that can be referred to, by type."""
    root = nodes[nodes.root]
    if root.keys is None and root.data:
        raise RelayError("The JSON's root is not a map with keys; it is damaged.")
    return {key: list(nodes[i].data) for key, i in zip(root.keys or (), root.data, strict=True)}


def load_json(source: Source, offset: int) -> object:
    """Parse the JSON from ``offset`` to the end of a text.

    Raises
    ------
    RelayError
        If it is damaged.
    """
    try:
        return json.loads(source.text[offset:])
    except json.JSONDecodeError as error:
        at = min(offset + error.pos, len(source.text))
        raise source.error(at, f"The JSON is damaged here: {error.msg}.") from None
    except RecursionError:
        raise source.error(offset, "The JSON nests too deeply; it is damaged.") from None
    except ValueError as error:  # an integer of thousands of digits
        raise source.error(offset, f"The JSON is damaged: {error}.") from None


def write_metadata(constants: Sequence[np.ndarray]) -> str:
    """Return the section's JSON, with tensors for ``meta[relay.Constant][i]`` in this order.

    Raises
    ------
    ValueError
        If TVM has no tensors of such a data type.
    """
    anywhere = {"device_type_int": "-1", "virtual_device_id": "-1", "target": "0"}
    nodes: list[dict[str, object]] = [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
        {"type_key": "Array"},
        {"type_key": "VirtualDevice", "attrs": {**anywhere, "memory_scope": "4"}},
        {"type_key": "runtime.String"},
    ]
    nodes[2]["data"] = [len(nodes) + i for i in range(len(constants))]
    for i in range(len(constants)):
        fields = {"data": str(i), "span": "0", "_checked_type_": "0", "virtual_device_": "3"}
        nodes.append({"type_key": "relay.Constant", "attrs": fields})
    tensors = [encode(value) for value in constants]
    return json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": tensors}, indent=2)
