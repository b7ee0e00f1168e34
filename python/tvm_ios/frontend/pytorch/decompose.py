# SPDX-License-Identifier: Apache-2.0
"""Decomposition of an exported program into the operators that TVM's importer knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .convert import missing_operators

if TYPE_CHECKING:
    import torch

_ROUNDS = 3  # decompositions of what decompositions bring


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Decompose a program into PyTorch's core operators, but attention.

    Core operators that TVM does not know are decomposed further where PyTorch has a decomposition.
    """
    import torch
    from torch._decomp import get_decompositions

    table = torch.export.default_decompositions()
    table.pop(torch.ops.aten.scaled_dot_product_attention.default, None)
    program = program.run_decompositions(table)
    for _ in range(_ROUNDS):
        further = get_decompositions(list(missing_operators(program)))
        if not further:
            break
        table.update(further)
        program = program.run_decompositions(table)
    return program
