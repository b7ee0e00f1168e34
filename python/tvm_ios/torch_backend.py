# SPDX-License-Identifier: Apache-2.0
"""``torch.compile(module, backend="tvm_ios")``: torch finds it by its entry point.

For inference: what it returns has no gradients.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch

from . import api
from .support.errors import ModelError

_logger = logging.getLogger(__name__)


def tvm_ios(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
) -> CompiledGraph:
    """Compile what torch has traced of a module.

    Parameters
    ----------
    graph : torch.fx.GraphModule
    example_inputs : sequence of torch.Tensor
        Weights and inputs, in the order of the graph's placeholders.
    options : mapping, optional
        As ``torch.compile(options=...)`` was given them: keywords of :func:`tvm_ios.compile`.
        Without ``target`` a module on a GPU is compiled for that.

    Raises
    ------
    ModelError
        When shapes are dynamic, or the importers cannot read the graph.
    """
    if any(not isinstance(value, torch.Tensor) for value in example_inputs):
        raise ModelError("The shapes are dynamic; call torch.compile with dynamic=False.")
    return CompiledGraph(graph, example_inputs, dict(options or {}))


class CompiledGraph:
    """A graph compiled with its weights as constants.

    It is compiled again when it is called with other weights, or after they were written to in a
    way that PyTorch counts. What is written through ``weight.data``, or to weights that were made
    in ``torch.inference_mode``, is not counted: it shows after ``torch.compiler.reset()``.

    Parameters
    ----------
    graph : torch.fx.GraphModule
    example_inputs : sequence of torch.Tensor
    options : mapping
        Keywords of :func:`tvm_ios.compile`.
    """

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        example_inputs: Sequence[torch.Tensor],
        options: Mapping[str, Any],
    ) -> None:
        self._graph, self._options = graph, options
        self._weights = [i for i, value in enumerate(example_inputs) if _is_weight(value)]
        self._inputs = [i for i in range(len(example_inputs)) if i not in self._weights]
        self._compiling = threading.Lock()
        self._compiled = self._compile(example_inputs)

    def __call__(self, *values: torch.Tensor) -> list[torch.Tensor]:
        """What the graph returns: a list of tensors.

        Threads whose weights are another's wait while it compiles. Where that fails, or is
        interrupted, the next call tries again.
        """
        compiled = self._compiled
        if compiled.state != self._state(values):
            with self._compiling:
                compiled = self._compiled
                if compiled.state != self._state(values):
                    _logger.info("the weights have changed: the network is compiled again")
                    compiled = self._compiled = self._compile(values)
        results = compiled.model(*(values[i] for i in self._inputs))
        return list(results) if isinstance(results, tuple) else [results]

    def _compile(self, values: Sequence[torch.Tensor]) -> _Compiled:
        weights = [values[i] for i in self._weights]
        state = self._state(values)  # before they are copied: what is written later counts
        bound = _bind(self._graph, dict(zip(self._weights, weights, strict=True)))
        options = {**_place(values), **self._options}
        model = api.compile(bound, [values[i] for i in self._inputs], **options)
        return _Compiled(model, state, weights)

    def _state(self, values: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
        """Which weights these are, and how often they were written to."""
        return [(values[i].data_ptr(), _writes(values[i])) for i in self._weights]


@dataclass(frozen=True)
class _Compiled:
    """A model and the weights that it was compiled with.

    Attributes
    ----------
    model : CompiledModel
    state : list of pairs of int
        Where the weights were, and how often they had been written to.
    weights : list of torch.Tensor
        Held, so that no others take their place.
    """

    model: api.CompiledModel
    state: list[tuple[int, int]]
    weights: list[torch.Tensor]


def _place(values: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Where a graph runs that nothing else is said of: on the GPU, if it has tensors there."""
    devices = [value.device for value in values if value.is_cuda]
    return {"target": "cuda", "device_id": devices[0].index} if devices else {}


def _writes(value: torch.Tensor) -> int:
    """How often a tensor was written to, as far as PyTorch counts."""
    return 0 if value.is_inference() else value._version


def _is_weight(value: torch.Tensor) -> bool:
    """Whether torch passes it with every call although it belongs to the module."""
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _bind(graph: torch.fx.GraphModule, weights: Mapping[int, torch.Tensor]) -> torch.fx.GraphModule:
    """The graph with its own copies of some inputs."""
    bound = torch.fx.GraphModule(graph, deepcopy(graph.graph))
    placeholders = [node for node in bound.graph.nodes if node.op == "placeholder"]
    for index, tensor in weights.items():
        node, name = placeholders[index], f"weight_{index}"
        bound.register_buffer(name, tensor.detach().clone())
        with bound.graph.inserting_before(node):
            node.replace_all_uses_with(bound.graph.get_attr(name))
        bound.graph.erase_node(node)
    bound.recompile()
    return bound.eval()
