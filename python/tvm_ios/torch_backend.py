# SPDX-License-Identifier: Apache-2.0
"""The backend of ``torch.compile(module, backend="tvm_ios")``, registered as an entry point.

It is for inference: the result has no gradients.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import api
from .frontend.pytorch.graph_arguments import Arguments, Outputs
from .support.errors import ModelError

_logger = logging.getLogger(__name__)

_Key = tuple["tuple[int, ...] | None", tuple[float, ...]]
"""The sizes that a model is for, None for any, and the numbers."""


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
        ``target``, a module on a GPU is compiled for that GPU. A graph whose sizes are dynamic is
        compiled once for any of them, or for ``batch_sizes`` if they are given; where that cannot
        be, it is compiled anew for every shape.

    Returns
    -------
    CompiledGraph

    Raises
    ------
    ModelError
        If the importers cannot read the graph.
    """
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
    example_inputs : sequence of torch.Tensor and torch.SymInt
        Weights, inputs and sizes of dynamic dimensions, in the order of the graph's placeholders.
    options : mapping
        Keyword arguments of :func:`tvm_ios.compile`.
    """

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        options: Mapping[str, Any],
    ) -> None:
        self._graph, self._arguments = graph, Arguments.of(graph, example_inputs)
        self._options = dict(options)
        batches = self._options.pop("batch_sizes", None)
        self._outputs = Outputs.of(graph)
        self._places = self._arguments.dynamic_shapes(graph)
        self._batches = batches if any(self._places) else None
        self._dynamic = self._places if any(self._places) and not self._batches else None
        self._compiling = threading.Lock()
        self._compiled: dict[_Key, _Compiled] = {}
        self._compiled_for(example_inputs)

    def __call__(self, *values: Any) -> list[Any]:
        """Return the graph's outputs as a list.

        While one thread compiles the graph for new weights, other threads with those weights wait.
        If compiling fails or is interrupted, the next call tries again.
        """
        inputs = [values[i] for i in self._arguments.inputs]
        compiled = self._compiled_for(values)
        try:
            results = compiled.model(*inputs)
        except (ValueError, RuntimeError) as refusal:
            if not compiled.is_open:
                raise
            _logger.info("%s: the network is compiled for these sizes", refusal)
            results = self._current(values, self._sizes(values)).model(*inputs)
        tensors = results if isinstance(results, tuple) else [results]
        return self._outputs.joined(tensors, values)

    def _compiled_for(self, values: Sequence[Any]) -> _Compiled:
        """Return the model for some arguments; one for any sizes unless that cannot be."""
        if self._batches:
            return self._current(values, None)
        sizes = self._sizes(values)
        if self._dynamic is None or self._key(values, sizes) in self._compiled:
            return self._current(values, sizes)
        try:
            return self._current(values, None)
        except (ModelError, TypeError) as refusal:
            _logger.info("%s: the network is compiled anew for every shape", refusal)
            self._dynamic = None
            return self._current(values, sizes)

    def _sizes(self, values: Sequence[Any]) -> tuple[int, ...]:
        """Return the sizes of all inputs, which a model that is not for any sizes is for."""
        inputs = zip(self._arguments.inputs, self._places, strict=True)
        return tuple(int(values[i].shape[axis]) for i, axes in inputs for axis in axes)

    def _key(self, values: Sequence[Any], sizes: tuple[int, ...] | None) -> _Key:
        return sizes, tuple(values[i].item() for i in self._arguments.numbers)

    def _current(self, values: Sequence[Any], sizes: tuple[int, ...] | None) -> _Compiled:
        """Return the model for these weights, numbers and sizes, or for any sizes."""
        key = self._key(values, sizes)
        compiled = self._compiled.get(key)
        if compiled is None or compiled.state != self._state(values):
            with self._compiling:
                compiled = self._compiled.get(key)
                if compiled is None or compiled.state != self._state(values):
                    if self._compiled:
                        what = "the weights have changed" if compiled else "the sizes are others"
                        _logger.info("%s: the network is compiled again", what)
                    compiled = self._compile(values, is_open=sizes is None and not self._batches)
                    self._compiled[key] = compiled
        return compiled

    def _compile(self, values: Sequence[Any], *, is_open: bool) -> _Compiled:
        weights = [values[i] for i in self._arguments.weights]
        state = self._state(values)  # before the copy, so that a later write is noticed
        bound = self._arguments.bind(self._graph, values)
        options = {**_place(values), **self._options}
        if self._batches:
            options["batch_sizes"] = self._batches
        if is_open:
            options["dynamic_shapes"] = self._dynamic
        inputs = [values[i] for i in self._arguments.inputs]
        # Exporting knows nothing of what torch.compile assumes of the sizes.
        with torch._guards.tracing(None):
            model = api.compile(bound, inputs, **options)
        return _Compiled(model, state, weights, is_open)

    def _state(self, values: Sequence[Any]) -> list[tuple[int, int]]:
        """Return the address and the version of each weight."""
        return [(values[i].data_ptr(), _writes(values[i])) for i in self._arguments.weights]


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
    is_open : bool
        Whether the model is for any sizes, as far as it can be.
    """

    model: api.CompiledModel
    state: list[tuple[int, int]]
    weights: list[torch.Tensor]
    is_open: bool


def _place(values: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Return the default target of a graph: the GPU if it has tensors there."""
    devices = [value.device for value in values if getattr(value, "is_cuda", False)]
    return {"target": "cuda", "device_id": devices[0].index} if devices else {}


def _writes(value: torch.Tensor) -> int:
    """Return how often a tensor was written to, as far as PyTorch counts."""
    return 0 if value.is_inference() else value._version
