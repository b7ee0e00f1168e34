# SPDX-License-Identifier: Apache-2.0
"""Relay among the formats of models, by an entry point of the package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tvm

from ..frontend.dimensions import Declared, Given, complete, static
from ..frontend.model_format import ModelFormat, ModelSource
from ..frontend.shapes import check_names
from ..support.errors import ModelError
from .ast import Module, TensorType
from .convert import convert
from .loading import given_params
from .reading import parse


def _load(given: ModelSource) -> tvm.IRModule:
    module = parse(Path(given.model))
    return convert(module, given_params(module, given.params), _open_shapes(module, given))


def _open_shapes(module: Module, given: ModelSource) -> dict[str, list[int]]:
    """Return the shapes of parameters that have unknown dimensions or are given a shape."""
    tensors = {
        var.name: var.type.shape
        for var in (module.functions["main"].params if "main" in module.functions else ())
        if isinstance(var.type, TensorType)
    }
    shapes, batch = given.shapes, given.batch
    check_names(given.model, shapes, [*tensors])
    partial = {name: shape for name, shape in tensors.items() if None in shape or name in shapes}
    if batch is not None and not any(shape[:1] == (None,) for shape in partial.values()):
        raise ModelError(
            f"No input of {given.model} leaves its first dimension open for a batch size."
        )
    declared = [_declared(name, shape, batch) for name, shape in partial.items()]
    return static(complete(given.model, declared, Given(shapes, None, given.dims)))


def _declared(name: str, shape: Sequence[int | None], batch: int | None) -> Declared:
    """Return an input, whose first dimension is the batch if it is open."""
    sizes = [batch, *shape[1:]] if shape[:1] == (None,) else list(shape)
    return Declared(name, sizes, [f"{name}.{axis}" for axis in range(len(shape))])


FORMAT = ModelFormat(
    "a Relay model",
    _load,
    suffixes=(".relay", ".json"),
    help="a Relay model in text form (.relay) or JSON form (.json)",
    weights="a file that relay.save_param_dict wrote",
)
