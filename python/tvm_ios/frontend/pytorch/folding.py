# SPDX-License-Identifier: Apache-2.0
"""Values of an exported program that do not depend on its inputs.

Programs compute positions, masks and indices of attention each time, and transform weights. PyTorch
computes these values here once, by its own operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_LARGEST = 1 << 26  # bytes of a value, or as many as the largest weight has


def constants(program: torch.export.ExportedProgram) -> dict[torch.fx.Node, torch.Tensor]:
    """Return the tensors that operators compute from weights and constants alone.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        A program of core operators.

    Returns
    -------
    dict of torch.fx.Node to torch.Tensor
        Results of operators; weights themselves are not among them.
    """
    import torch

    known: dict[torch.fx.Node, Any] = dict(given(program))
    largest = max([_LARGEST, *(_num_bytes(value) for value in known.values())])
    computed: dict[torch.fx.Node, torch.Tensor] = {}
    with torch.no_grad():
        for node in program.graph.nodes:
            if not _foldable(node, known):
                continue
            args = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            value = node.target(*args[0], **args[1])
            if _num_bytes(value) > largest:
                continue
            known[node] = value
            if isinstance(value, torch.Tensor):
                computed[node] = value
    return computed


def given(program: torch.export.ExportedProgram) -> dict[torch.fx.Node, torch.Tensor]:
    """Return the weights, buffers and constants, by their placeholders."""
    tensors = {**program.constants, **program.state_dict}
    targets = {
        spec.arg.name: spec.target
        for spec in program.graph_signature.input_specs
        if spec.target is not None
    }
    placeholders = (node for node in program.graph.nodes if node.op == "placeholder")
    return {
        node: tensors[targets[node.name]]
        for node in placeholders
        if targets.get(node.name) in tensors
    }


def _foldable(node: torch.fx.Node, known: dict[torch.fx.Node, Any]) -> bool:
    """Return whether a node computes the same value each time, from what is known."""
    import torch

    if node.op != "call_function" or not all(n in known for n in node.all_input_nodes):
        return False
    tags = getattr(node.target, "tags", ())
    schema = getattr(node.target, "_schema", None)
    if torch.Tag.nondeterministic_seeded in tags or (schema and schema.is_mutable):
        return False
    return schema is not None or getattr(node.target, "__module__", "") == "_operator"


def _num_bytes(value: Any) -> int:
    if isinstance(value, tuple | list):
        return sum(map(_num_bytes, value))
    return value.nbytes if hasattr(value, "nbytes") else 0
