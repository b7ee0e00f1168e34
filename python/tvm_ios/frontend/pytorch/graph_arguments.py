# SPDX-License-Identifier: Apache-2.0
"""The arguments of a graph that torch.compile traced: weights, inputs, sizes and numbers.

What it returns are tensors, and numbers that are computed from sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch

from ...support.errors import ModelError

Place = tuple[int, int]
"""Where a size is found: the number of an argument, and of its dimension."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a graph, by their numbers.

    Attributes
    ----------
    weights, inputs : list of int
        Tensors that belong to the module, and all others.
    sizes : dict of int to Place
        Sizes of dynamic dimensions, and where they are found in the tensors.
    numbers : list of int
        Tensors that the graph takes only as numbers of Python's, such as the epsilon of a
        normalisation.
    """

    weights: list[int]
    inputs: list[int]
    sizes: dict[int, Place]
    numbers: list[int]

    @staticmethod
    def of(graph: torch.fx.GraphModule, values: Sequence[Any]) -> Arguments:
        """Sort the arguments.

        Parameters
        ----------
        graph : torch.fx.GraphModule
        values : sequence of torch.Tensor and torch.SymInt
            Example arguments.

        Raises
        ------
        ModelError
            If a size is that of no tensor.
        """
        nodes = _placeholders(graph)
        sizes = _sizes([node.meta.get("example_value") for node in nodes])
        numbers = [i for i, node in enumerate(nodes) if _is_number(node, values[i])]
        weights = [i for i, value in enumerate(values) if _is_weight(value)]
        known = {*sizes, *numbers, *weights}
        return Arguments(weights, [i for i in range(len(nodes)) if i not in known], sizes, numbers)

    def dynamic_shapes(self, graph: torch.fx.GraphModule) -> tuple[dict[int, Any], ...]:
        """Return the dynamic dimensions of each input, as ``torch.export.export`` takes them."""
        nodes = _placeholders(graph)
        shapes = [getattr(nodes[i].meta.get("example_value"), "shape", ()) for i in self.inputs]
        return tuple(
            {
                dimension: torch.export.Dim.AUTO
                for dimension, size in enumerate(shape)
                if isinstance(size, torch.SymInt) and size.node.expr.free_symbols
            }
            for shape in shapes
        )

    def bind(self, graph: torch.fx.GraphModule, values: Sequence[Any]) -> torch.fx.GraphModule:
        """Return the graph as a function of its inputs that returns its tensors alone.

        Copies of the weights and the numbers are constants, and sizes are found in the inputs.
        """
        bound = torch.fx.GraphModule(graph, deepcopy(graph.graph))
        _keep_outputs(bound, of_tensors=True)
        nodes = _placeholders(bound)
        first = next(node for node in bound.graph.nodes if node.op != "placeholder")
        with bound.graph.inserting_before(first):
            for i in self.weights:
                name = f"weight_{i}"
                bound.register_buffer(name, values[i].detach().clone())
                nodes[i].replace_all_uses_with(bound.graph.get_attr(name))
            for i, (tensor, dimension) in self.sizes.items():
                size = bound.graph.call_method("size", (nodes[tensor], dimension))
                nodes[i].replace_all_uses_with(size)
        for i in self.numbers:
            for user in list(nodes[i].users):
                _replace_by(user, values[i].item())
        for i in sorted({*self.weights, *self.sizes, *self.numbers}):
            bound.graph.erase_node(nodes[i])
        bound.recompile()
        return bound.eval()


@dataclass(frozen=True)
class Outputs:
    """What a graph returns.

    Attributes
    ----------
    are_tensors : tuple of bool
    numbers : torch.fx.GraphModule or None
        A function of the graph's arguments that returns what is no tensor; None if there is none.
    """

    are_tensors: tuple[bool, ...]
    numbers: torch.fx.GraphModule | None

    @staticmethod
    def of(graph: torch.fx.GraphModule) -> Outputs:
        """Sort what a graph returns."""
        are_tensors = tuple(map(_is_tensor, _outputs(graph)))
        if all(are_tensors):
            return Outputs(are_tensors, None)
        numbers = torch.fx.GraphModule(graph, deepcopy(graph.graph))
        _keep_outputs(numbers, of_tensors=False)
        numbers.recompile()
        return Outputs(are_tensors, numbers)

    def joined(self, tensors: Sequence[torch.Tensor], arguments: Sequence[Any]) -> list[Any]:
        """Return tensors with the numbers between them, in the graph's order."""
        if self.numbers is None:
            return list(tensors)
        found, numbers = iter(tensors), iter(self.numbers(*arguments))
        return [next(found if is_tensor else numbers) for is_tensor in self.are_tensors]


def _outputs(graph: torch.fx.GraphModule) -> Sequence[Any]:
    returned = _output(graph).args[0]
    return returned if isinstance(returned, tuple | list) else (returned,)


def _output(graph: torch.fx.GraphModule) -> torch.fx.Node:
    (node,) = (node for node in graph.graph.nodes if node.op == "output")
    return node


def _is_tensor(value: Any) -> bool:
    if not isinstance(value, torch.fx.Node):
        return False
    example = value.meta.get("example_value")
    return not isinstance(example, int | float | torch.SymInt | torch.SymFloat | torch.SymBool)


def _keep_outputs(graph: torch.fx.GraphModule, *, of_tensors: bool) -> None:
    """Return the tensors of a graph alone, or all but these, and leave out what is not needed."""
    kept = tuple(value for value in _outputs(graph) if _is_tensor(value) == of_tensors)
    _output(graph).args = (kept,)
    graph.graph.eliminate_dead_code()


def _placeholders(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _sizes(values: Sequence[Any]) -> dict[int, Place]:
    places = {
        str(size): (number, dimension)
        for number, value in reversed([*enumerate(values)])
        if isinstance(value, torch.Tensor)
        for dimension, size in enumerate(value.shape)
        if isinstance(size, torch.SymInt)
    }
    symbols = {i: str(value) for i, value in enumerate(values) if isinstance(value, torch.SymInt)}
    if not places.keys() >= set(symbols.values()):
        raise ModelError(
            "An argument is a number, which a compiled model cannot take; call torch.compile with "
            "dynamic=False."
        )
    return {i: places[symbol] for i, symbol in symbols.items()}


def _is_number(node: torch.fx.Node, value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.ndim == 0
        and bool(node.users)
        and all(user.op == "call_method" and user.target == "item" for user in node.users)
    )


def _is_weight(value: Any) -> bool:
    """Return whether a tensor belongs to the module although torch passes it with every call."""
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _replace_by(node: torch.fx.Node, value: float) -> None:
    """Use a constant instead of the node, and remove it."""
    for user in list(node.users):
        arguments, keywords = torch.fx.node.map_arg(
            (user.args, user.kwargs), lambda other: value if other is node else other
        )
        user.args, user.kwargs = arguments, keywords
    node.graph.erase_node(node)
