# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX as an older operator set has them, of which some operands are attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from .draw import Refused
from .network import Node

_NEWEST = onnx.defs.onnx_opset_version()
_NAMES = {"Resize": (10, "Upsample"), "ScatterElements": (11, "Scatter")}
"""The operator sets in which operators got their names, and the names before."""

_ATTRIBUTES = {"constant_value": "value"}  # whose names differ by more than case
_SCALARS = (onnx.defs.OpSchema.AttrType.FLOAT, onnx.defs.OpSchema.AttrType.INT)


def in_opset(node: Node, opset: int, constants: Mapping[str, np.ndarray]) -> Node:
    """Return a node of the newest form in that of an operator set.

    Operands that are attributes there must be constants.

    Raises
    ------
    Refused
        When there is no such operator, or none with such operands.
    """
    since, name = _NAMES.get(node.op, (0, node.op))
    name = name if opset < since else node.op
    if "+" in name:
        return node
    newest = onnx.defs.get_schema(node.op, _NEWEST)
    try:
        older = onnx.defs.get_schema(name, opset)
    except onnx.defs.SchemaError as error:
        raise Refused(f"{name} is newer than operator set {opset}") from error
    if older.since_version == newest.since_version or len(newest.inputs) < len(node.inputs):
        return node
    attributes, operands = dict(node.attributes), []
    names = [each.name for each in older.inputs]
    for operand, given in zip(node.inputs, newest.inputs, strict=False):
        attribute = _attribute(older, given.name)
        if given.name in names or (attribute is None and len(names) == len(newest.inputs)):
            operands.append(operand)
        elif operand and (attribute is None or operand not in constants):
            raise Refused(f"{name} of operator set {opset} has no {given.name}")
        elif operand:
            attributes[attribute.name] = _value(attribute, constants[operand])
    return replace(node, op=name, inputs=tuple(operands), attributes=attributes)


def _attribute(schema: onnx.defs.OpSchema, operand: str) -> onnx.defs.OpSchema.Attribute | None:
    name = _ATTRIBUTES.get(operand, operand).lower()
    return next((a for key, a in schema.attributes.items() if key.lower() == name), None)


def _value(attribute: onnx.defs.OpSchema.Attribute, array: np.ndarray) -> Any:
    if attribute.type in _SCALARS:
        return array.item()
    return array.reshape(-1).tolist()
