# SPDX-License-Identifier: Apache-2.0
"""PyTorch models at other shapes than those that they were exported, or are given, with."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...support.errors import ModelError
from ...support.text import first_line
from ..dimensions import Given, static
from ..importing import captured
from ..shapes import Shapes, check_names
from .open_inputs import given_shapes, inputs_of

if TYPE_CHECKING:
    import torch


def export_at(program: torch.export.ExportedProgram, given: Given) -> torch.export.ExportedProgram:
    """Return a program with static shapes instead of dynamic dimensions.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    given : Given
        What the user says of the dimensions that the program leaves open.

    Raises
    ------
    OpenShapeError
        If a dimension stays open.
    ModelError
        If one is fixed to another size, or the program does not allow the shapes.
    """
    import torch

    shapes = static(given_shapes(program, given))
    inputs = [
        torch.zeros(shapes[node.name], dtype=node.meta["val"].dtype) for node in inputs_of(program)
    ]
    arguments, keywords = torch.utils._pytree.tree_unflatten(inputs, program.call_spec.in_spec)
    try:
        with torch.no_grad(), captured():
            return torch.export.export(program.module(), arguments, keywords)
    except Exception as error:  # guards raise various types
        raise ModelError(
            f"The program does not allow these shapes: {first_line(error)}; export it with other "
            "dynamic dimensions."
        ) from error


def resized(
    module: torch.nn.Module, examples: Sequence[torch.Tensor], shapes: Shapes
) -> list[torch.Tensor]:
    """Return a module's example inputs with other shapes; their values are repeated.

    Parameters
    ----------
    module : torch.nn.Module
    examples : sequence of torch.Tensor
    shapes : mapping of str to sequence of int
        By the names of the parameters of the module's ``forward``.

    Raises
    ------
    ModelError
        If there is no such parameter, or a shape has another number of dimensions.
    """
    names = list(inspect.signature(module.forward).parameters)[: len(examples)]
    check_names("The module", shapes, names)
    result = list(examples)
    for name, shape in shapes.items():
        tensor = examples[names.index(name)]
        if len(shape) != tensor.ndim:
            raise ModelError(
                f"Input {name!r} has {tensor.ndim} dimensions, but the shape given for it, "
                f"{list(shape)}, has {len(shape)}."
            )
        result[names.index(name)] = _repeated(tensor, shape)
    return result


def with_batch(examples: Sequence[torch.Tensor], batch: int) -> list[torch.Tensor]:
    """Return example inputs with another batch.

    The batch is the first dimension of the first input, and of all inputs that have it.
    """
    rows = examples[0].shape[:1]
    return [
        _repeated(tensor, (batch, *tensor.shape[1:])) if tensor.shape[:1] == rows else tensor
        for tensor in examples
    ]


def _repeated(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    import torch

    for dimension, size in enumerate(shape):
        rows = torch.arange(size, device=tensor.device) % tensor.shape[dimension]
        tensor = tensor.index_select(dimension, rows)
    return tensor
