# SPDX-License-Identifier: Apache-2.0
"""The values that the nodes of a graph can read, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...support.errors import ModelError
from ..parts import Captures
from .narrow import tensor_of
from .operators import Value
from .values import tensors_of, with_tensors

if TYPE_CHECKING:
    import onnx


@dataclass
class Scope:
    """The values of a graph or of the body of a function.

    Attributes
    ----------
    values : dict of str to Value
        By name; what is left out is None.
    outer : Scope or None
        The graph that this one is a branch of.
    opsets : mapping of str to int
        The versions of the operators' domains.
    attributes : mapping of str to AttributeProto
        Those of the call of a function.
    weights : dict of str to TensorProto
        Constants that have not been needed yet.
    captures : Captures or None
        What stands for the values of ``outer``, if this is the graph of a part.
    """

    opsets: Mapping[str, int]
    attributes: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    outer: Scope | None = None
    weights: dict[str, onnx.TensorProto] = field(default_factory=dict)
    captures: Captures | None = None

    def add_weights(self, graph: onnx.GraphProto) -> None:
        """Add the constants of a graph, which are read when they are needed."""
        self.weights.update((tensor.name, tensor) for tensor in graph.initializer)

    def find(self, name: str) -> Value:
        """Return a value.

        Raises
        ------
        ModelError
            If nothing computes it.
        """
        if not name:
            return None
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.weights:
                weight = scope.weights.pop(name)
                scope.values[name] = tensor_of(weight, f"The constant {name!r}")
                return scope.values[name]
            if scope.captures is not None and scope.outer is not None:
                value = scope.outer.find(name)
                inside = map(scope.captures.of, tensors_of(value))
                scope.values[name] = with_tensors(value, inside)
                return scope.values[name]
            scope = scope.outer
        raise ModelError(f"Nothing computes {name!r}, which the model reads; export it again.")
