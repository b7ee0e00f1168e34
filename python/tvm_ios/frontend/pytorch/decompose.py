# SPDX-License-Identifier: Apache-2.0
"""Decomposition of an exported program into the operators that TVM's importer knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .convert import missing_operators

if TYPE_CHECKING:
    import torch

_ROUNDS = 3  # decompositions of what decompositions bring


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Decompose a program into PyTorch's core operators, but attention and recurrent layers.

    Core operators that TVM does not know are decomposed further where PyTorch has a decomposition.
    """
    import torch
    from torch._decomp import get_decompositions

    table = torch.export.default_decompositions()
    aten = torch.ops.aten
    table.pop(aten.scaled_dot_product_attention.default, None)
    for layer in (aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu):
        table.pop(layer.input, None)
    program = program.run_decompositions(table)
    for _ in range(_ROUNDS):
        further = get_decompositions(list(missing_operators(program)))
        if not further:
            break
        table.update(further)
        program = program.run_decompositions(table)
    return program
