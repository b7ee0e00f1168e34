# SPDX-License-Identifier: Apache-2.0
"""Nodes of ONNX graphs: their descriptions, and which of them are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

STANDARD = ("", "ai.onnx")
"""The names of ONNX's own domain."""


def is_standard(domain: str) -> bool:
    return domain in STANDARD


def described(node: onnx.NodeProto) -> str:
    """Return the operator of a node, and the node's name if it has one."""
    kind = node.op_type if is_standard(node.domain) else f"{node.domain}.{node.op_type}"
    return f"{kind} {node.name!r}" if node.name else kind


def needed_nodes(
    nodes: Iterable[onnx.NodeProto], outputs: Sequence[str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """Return the nodes that outputs depend on, in their order, and the names that are read."""
    needed, names = [], set(outputs)
    for node in reversed(list(nodes)):
        if not names.isdisjoint(node.output):
            needed.append(node)
            names.update(_read(node))
    return needed[::-1], names - {""}


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, and those that its graphs read from outside."""
    yield from node.input
    for graph in graphs_of(node):
        computed = {name for inner in graph.node for name in inner.output}
        computed.update(value.name for value in graph.input)
        computed.update(tensor.name for tensor in graph.initializer)
        read = {name for inner in graph.node for name in _read(inner)}
        read.update(value.name for value in graph.output)
        yield from read - computed


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs inside a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
