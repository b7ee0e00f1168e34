# SPDX-License-Identifier: Apache-2.0
"""Folding of what an ONNX model computes from static shapes.

Exporters write shapes as computations: ``Shape``, ``Gather``, ``Div``, ``Concat``, ``Reshape``.
With static inputs they are constants, which TVM's importer needs to see. What folds them takes half
a second to import, so that constants that are only written otherwise are lifted without it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .operators import nodes_of

if TYPE_CHECKING:
    import onnx
    import onnx_ir

_logger = logging.getLogger(__name__)
_BEGINNINGS = ("Constant", "If", "Shape", "Size")
_LARGEST = 1 << 16  # elements of a folded constant; shapes and pads are smaller


def fold(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with constant computations and shapes folded, without unused nodes.

    A model that cannot be folded is returned as it is; what is wrong with it shows when it is
    converted.
    """
    _lift(model.graph)
    weights = {tensor.name for tensor in model.graph.initializer}
    if not any(_is_constant(node, weights) for node in nodes_of(model.graph)):
        return model  # without loading what folds
    import onnx_ir
    import onnxscript.optimizer
    from onnx_ir.passes.common import LiftConstantsToInitializersPass

    try:
        folded = onnx_ir.serde.deserialize_model(model)
        onnxscript.optimizer.fold_constants(
            folded, onnx_shape_inference=True, output_size_limit=_LARGEST, should_fold=_should_fold
        )
        onnxscript.optimizer.remove_unused_nodes(folded)
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(folded)
        return onnx_ir.serde.serialize_model(folded)
    except Exception as error:  # a damaged model raises various types
        _logger.debug("The model is not folded: %s", error)
        return model


def _lift(graph: onnx.GraphProto) -> None:
    """Make initializers of ``Constant`` nodes, and name a copy of an initializer as the original.

    PyTorch's exporter writes equal weights once, and copies by ``Identity``.
    """
    weights = {tensor.name for tensor in graph.initializer}
    results = _results(graph)
    originals: dict[str, str] = {}
    nodes = [*graph.node]
    del graph.node[:]
    for node in nodes:
        source = originals.get(node.input[0], node.input[0]) if node.input else ""
        if not results.isdisjoint(node.output):
            graph.node.append(node)
        elif node.op_type == "Identity" and source in weights:
            originals[node.output[0]] = source
        elif _is_literal(node):
            weights.add(node.output[0])
            graph.initializer.append(node.attribute[0].t)
            graph.initializer[-1].name = node.output[0]
        else:
            graph.node.append(node)
    for node in nodes_of(graph):
        if not originals.keys().isdisjoint(node.input):
            node.input[:] = [originals.get(name, name) for name in node.input]


def _results(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the results of a graph and of the graphs inside of it."""
    attributes = [attribute for node in nodes_of(graph) for attribute in node.attribute]
    inner = [body for attribute in attributes for body in (attribute.g, *attribute.graphs)]
    return {value.name for body in (graph, *inner) for value in body.output}


def _is_literal(node: onnx.NodeProto) -> bool:
    """Return whether a node is a constant whose tensor is written out."""
    return node.op_type == "Constant" and [a.name for a in node.attribute] == ["value"]


def _is_constant(node: onnx.NodeProto, weights: set[str]) -> bool:
    """Return whether a node's result is known, as those are that shape computations begin with."""
    return node.op_type in _BEGINNINGS or all(name in weights for name in node.input if name)


def _should_fold(node: onnx_ir.Node) -> bool | None:
    """Fold ``ConstantOfShape``, too, by which exporters pad lists; leave the rest to the limits."""
    return True if node.op_type == "ConstantOfShape" else None
