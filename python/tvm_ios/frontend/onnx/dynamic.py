# SPDX-License-Identifier: Apache-2.0
"""Shapes that depend on values, which are known only when the model runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...support.errors import ModelError
from .nodes import described

if TYPE_CHECKING:
    import onnx

_SHAPES = {
    "ConstantOfShape": (0,), "CumSum": (1,), "Expand": (1,), "OneHot": (1,), "Pad": (1,),
    "Range": (0, 1, 2), "Reshape": (1,), "Resize": (1, 2, 3), "Tile": (1,), "TopK": (1,),
}  # fmt: skip
"""The inputs of operators that must be constant, because they are, or decide on, shapes."""


def check_shapes(path: Path, model: onnx.ModelProto) -> None:
    """Raise ModelError if a shape is computed from values of inputs; it names all of them.

    Parameters
    ----------
    path : Path
    model : onnx.ModelProto
        A model whose constant computations are folded.
    """
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    found: dict[str, list[str]] = {}
    for node in graph.node:
        for place in _SHAPES.get(node.op_type, ()):
            name = node.input[place] if place < len(node.input) else ""
            if name and name not in constants:
                cause = _cause(name, producers, constants)
                found.setdefault(cause, []).append(described(node))
    if found:
        causes = "; ".join(
            f"{cause} decides on the shape of {', '.join(nodes[:3])}"
            + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
            for cause, nodes in found.items()
        )
        raise ModelError(
            f"{path} has shapes that are not known before it runs ({causes}); export the model "
            "with constant shapes."
        )


def _cause(name: str, producers: dict[str, onnx.NodeProto], constants: set[str]) -> str:
    """Return what a value depends on first: an input, or a result of any size."""
    waiting, seen = [name], set()
    while waiting:
        value = waiting.pop()
        if value in seen or value in constants or not value:
            continue
        seen.add(value)
        node = producers.get(value)
        if node is None:
            return f"input {value!r}"
        if node.op_type in ("Compress", "NonZero", "Unique"):
            return f"the result of {described(node)}"
        waiting.extend(reversed(node.input))
    return f"{name!r}"
