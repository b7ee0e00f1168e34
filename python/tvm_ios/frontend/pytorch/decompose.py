# SPDX-License-Identifier: Apache-2.0
"""Decomposition of an exported program into the operators that there are converters of."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from .convert import missing_operators

if TYPE_CHECKING:
    import torch

_KEPT = (
    "addr.default",
    "scaled_dot_product_attention.default",
    "lstm.input",
    "gru.input",
    "rnn_tanh.input",
    "rnn_relu.input",
    "upsample_nearest1d.vec",
    "upsample_nearest2d.vec",
    "upsample_nearest3d.vec",
    "_upsample_nearest_exact1d.vec",
    "_upsample_nearest_exact2d.vec",
    "_upsample_nearest_exact3d.vec",
    "upsample_linear1d.vec",
    "upsample_bilinear2d.vec",
    "upsample_trilinear3d.vec",
    "upsample_bicubic2d.vec",
    "_upsample_bilinear2d_aa.vec",
    "_upsample_bicubic2d_aa.vec",
)
"""Operators whose decompositions hide what they are."""

_ROUNDS = 3  # decompositions of what decompositions bring


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Decompose a program into core operators, but attention, recurrent layers and resizing.

    What has no converter is decomposed further where PyTorch has a decomposition.
    """
    import torch
    from torch._decomp import get_decompositions

    table = torch.export.default_decompositions()
    for name in _KEPT:
        operator, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, operator), overload), None)
    _assume_several(program)
    program = _of_plain_ranges(program).run_decompositions(table)
    for _ in range(_ROUNDS):
        further = get_decompositions(list(missing_operators(program)))
        if not further:
            break
        table.update(further)
        program = program.run_decompositions(table)
    return _without_tokens(program)


def _assume_several(program: torch.export.ExportedProgram) -> None:
    """Let PyTorch assume that open sizes are not 1, as it did when it exported a program.

    In a program that was read from a file it would ask, which becomes a condition.
    """
    import torch

    for node in program.graph.nodes:
        value = node.meta.get("val") if node.op == "placeholder" else None
        if not isinstance(value, torch.Tensor):
            continue
        for size in value.shape:
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.hint > 1:
                symbol, environment = size.node.expr, size.node.shape_env
                most = environment.var_to_range[symbol].upper
                environment.constrain_symbol_range(symbol, 2, most)


def _of_plain_ranges(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program without bounds of expressions; PyTorch reads those of symbols alone."""
    ranges = program.range_constraints
    if all(expr.is_Symbol for expr in ranges):
        return program
    program = copy(program)
    program._range_constraints = {e: bounds for e, bounds in ranges.items() if e.is_Symbol}
    return program


def _without_tokens(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Call operators with effects as others; they are checks, and tokens are their order."""
    import torch

    effects = torch.ops.higher_order.with_effects
    if not any(node.target is effects for node in program.graph.nodes):
        return program
    from torch.export._remove_effect_tokens_pass import _remove_effect_tokens

    return _remove_effect_tokens(program)
