# SPDX-License-Identifier: Apache-2.0
"""Checks of a model's operators before it is converted; a failure names all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ...support.errors import ModelError

if TYPE_CHECKING:
    import onnx

STANDARD = ("", "ai.onnx")
"""The names of ONNX's own domain."""

INTERNAL = "tvm_ios.internal"
"""The domain of operators that stand for some of ONNX's until they are converted."""

_HANDLED = {"If", "Constant"}  # without an entry in the importer's table
_TYPES = {
    "FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8",
    "UINT16", "UINT32", "UINT64",
}  # fmt: skip


def check_operators(path: Path, model: onnx.ModelProto) -> None:
    """Check that TVM's importer knows all operators, and that tensors hold what TVM computes in.

    Raises
    ------
    ModelError
        It names all operators, or all types, that cannot be converted.
    """
    nodes, known = [*nodes_of(model.graph)], known_operators()
    foreign = {f"{n.domain}.{n.op_type}" for n in nodes if n.domain not in (*STANDARD, INTERNAL)}
    missing = {n.op_type for n in nodes if n.domain in STANDARD and n.op_type not in known}
    if foreign:
        names = ", ".join(sorted(foreign | missing))
        raise ModelError(
            f"{path} has operators that ONNX does not define or TVM does not know: {names}; export "
            "the model without them."
        )
    if missing:
        raise ModelError(
            f"TVM's ONNX importer does not support {', '.join(sorted(missing))} ({path}); export "
            "the model without it, for example with another opset."
        )
    _check_variants(path, nodes)
    _check_types(path, model, nodes)


def _check_variants(path: Path, nodes: Iterable[onnx.NodeProto]) -> None:
    """Raise ModelError for operators whose attributes TVM's importer would ignore."""
    found = set()
    for node in nodes:
        given = {a.name: a for a in node.attribute}
        if node.op_type == "NonMaxSuppression":
            found.add("NonMaxSuppression")  # TVM's has a result of another size
        if node.op_type == "RoiAlign" and "mode" in given and given["mode"].s == b"max":
            found.add("RoiAlign with the mode max")
    if found:
        raise ModelError(
            f"{path} has {' and '.join(sorted(found))}, which TVM's ONNX importer does not "
            "support; export the model without it."
        )


def _check_types(path: Path, model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Raise ModelError if a tensor has a type that TVM does not compute in."""
    import onnx

    graph = model.graph
    found = {t.data_type for t in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.HasField("tensor_type"):
            found.add(value.type.tensor_type.elem_type)
    for node in nodes:
        if node.op_type == "Cast":
            found.update(a.i for a in node.attribute if a.name == "to")
    found.discard(onnx.TensorProto.UNDEFINED)
    names = {onnx.TensorProto.DataType.Name(code) for code in found} - _TYPES
    if names:
        raise ModelError(
            f"{path} has tensors of type {', '.join(sorted(names)).lower()}, which TVM does not "
            "compute in; export the model with another type."
        )


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operators; 1 if the model names none."""
    return next((o.version for o in model.opset_import if o.domain in STANDARD), 1)


def known_operators() -> set[str]:
    """Return the operators that TVM's importer has a conversion of."""
    from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

    return _HANDLED | set(_get_convert_map())


def nodes_of(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    """Yield the nodes of a graph and of the graphs inside of it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from nodes_of(inner)
