# SPDX-License-Identifier: Apache-2.0
"""PyTorch models at other shapes than those that they were exported, or are given, with."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...support.errors import ModelError
from ...support.text import first_line
from ..importing import captured
from ..shapes import Shapes, check_names, fit

if TYPE_CHECKING:
    import torch


def export_at(
    program: torch.export.ExportedProgram, shapes: Shapes, batch: int | None
) -> torch.export.ExportedProgram:
    """Return a program with static shapes instead of dynamic dimensions.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    shapes : mapping of str to sequence of int
        Shapes of inputs by name.
    batch : int or None
        The first dimension of every input that leaves it open.

    Raises
    ------
    ModelError
        If a dimension stays open or is fixed to another size, or the program does not allow the
        shapes.
    """
    import torch

    wanted = set(program.graph_signature.user_inputs)
    nodes = [n for n in program.graph.nodes if n.op == "placeholder" and n.name in wanted]
    check_names("The program", shapes, [node.name for node in nodes])
    if batch is not None and all(_fixed(node)[:1] != [None] for node in nodes):
        raise ModelError(
            "No input of the program leaves its first dimension open for a batch size; export it "
            "with a dynamic one."
        )
    inputs = [_example(node, shapes, batch) for node in nodes]
    arguments, keywords = torch.utils._pytree.tree_unflatten(inputs, program.call_spec.in_spec)
    try:
        with torch.no_grad(), captured():
            return torch.export.export(program.module(), arguments, keywords)
    except Exception as error:  # guards raise various types
        raise ModelError(
            f"The program does not allow these shapes: {first_line(error)}; export it with other "
            "dynamic dimensions."
        ) from error


def _example(node: torch.fx.Node, shapes: Shapes, batch: int | None) -> torch.Tensor:
    import torch

    tensor = node.meta["val"]
    symbols = [str(size) for size in tensor.shape]
    shape = fit(node.name, _fixed(node), symbols, shapes.get(node.name), batch)
    return torch.zeros(shape, dtype=tensor.dtype)


def _fixed(node: torch.fx.Node) -> list[int | None]:
    """Return the sizes that a program fixes of an input; None for dynamic dimensions."""
    import torch

    tensor = node.meta["val"]
    if not isinstance(tensor, torch.Tensor):
        raise ModelError(f"Input {node.name!r} is not a tensor; only tensors can be inputs.")
    return [size if isinstance(size, int) else None for size in tensor.shape]


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
