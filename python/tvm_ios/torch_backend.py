# SPDX-License-Identifier: Apache-2.0
"""The backend of ``torch.compile(module, backend="tvm_ios")``, registered as an entry point.

It is for inference: the result has no gradients.
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
    """Compile a graph that torch traced from a module.

    Parameters
    ----------
    graph : torch.fx.GraphModule
        The traced graph.
    example_inputs : sequence of torch.Tensor
        Weights and inputs, in the order of the graph's placeholders.
    options : mapping, optional
        The ``options`` of ``torch.compile``: keyword arguments of :func:`tvm_ios.compile`. Without
        ``target``, a module on a GPU is compiled for that GPU.

    Returns
    -------
    CompiledGraph

    Raises
    ------
    ModelError
        If shapes are dynamic, or the importers cannot read the graph.
    """
    if any(not isinstance(value, torch.Tensor) for value in example_inputs):
        raise ModelError("The shapes are dynamic; call torch.compile with dynamic=False.")
    return CompiledGraph(graph, example_inputs, dict(options or {}))


class CompiledGraph:
    """A graph compiled with its weights as constants.

    The graph is compiled again if it is called with other weights, or after PyTorch counted a write
    to them. PyTorch does not count writes through ``weight.data`` or to weights made in
    ``torch.inference_mode``; call ``torch.compiler.reset()`` after such a write.

    Parameters
    ----------
    graph : torch.fx.GraphModule
        The traced graph.
    example_inputs : sequence of torch.Tensor
        Weights and inputs, in the order of the graph's placeholders.
    options : mapping
        Keyword arguments of :func:`tvm_ios.compile`.
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
        """Return the graph's outputs as a list of tensors.

        While one thread compiles the graph for new weights, other threads with those weights wait.
        If compiling fails or is interrupted, the next call tries again.
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
        state = self._state(values)  # before the copy, so that a later write is noticed
        bound = _bind(self._graph, dict(zip(self._weights, weights, strict=True)))
        options = {**_place(values), **self._options}
        model = api.compile(bound, [values[i] for i in self._inputs], **options)
        return _Compiled(model, state, weights)

    def _state(self, values: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
        """Return the address and the version of each weight."""
        return [(values[i].data_ptr(), _writes(values[i])) for i in self._weights]


@dataclass(frozen=True)
class _Compiled:
    """A model and the weights that it was compiled with.

    Attributes
    ----------
    model : CompiledModel
        The compiled model.
    state : list of pairs of int
        The address of each weight and how often it had been written to.
    weights : list of torch.Tensor
        References that keep the addresses from being reused.
    """

    model: api.CompiledModel
    state: list[tuple[int, int]]
    weights: list[torch.Tensor]


def _place(values: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Return the default target of a graph: the GPU if it has tensors there."""
    devices = [value.device for value in values if value.is_cuda]
    return {"target": "cuda", "device_id": devices[0].index} if devices else {}


def _writes(value: torch.Tensor) -> int:
    """Return how often a tensor was written to, as far as PyTorch counts."""
    return 0 if value.is_inference() else value._version


def _is_weight(value: torch.Tensor) -> bool:
    """Return whether a tensor belongs to the module although torch passes it with every call."""
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _bind(graph: torch.fx.GraphModule, weights: Mapping[int, torch.Tensor]) -> torch.fx.GraphModule:
    """Return the graph with copies of some inputs as constants."""
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
