# SPDX-License-Identifier: Apache-2.0
"""Conversion of an exported program by TVM's importer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from ...relax_ir.building import building
from ...support.errors import ModelError
from ..naming_builder import NamingBuilder
from .folding import constants
from .operators import OPERATORS

if TYPE_CHECKING:
    import torch

Convert = Callable[..., relax.Expr]


def convert(program: torch.export.ExportedProgram) -> tvm.IRModule:
    """Convert a program of core operators, with its weights as constants."""
    importer = _Importer(constants(program))
    with building():
        return importer.from_exported_program(
            program,
            keep_params_as_input=False,
            unwrap_unit_return_tuple=False,
            no_bind_return_tuple=False,
            custom_convert_map=OPERATORS,
        )


def check_operators(program: torch.export.ExportedProgram) -> None:
    """Raise ModelError if there are operators that cannot be converted; it names all of them."""
    names = sorted(map(str, missing_operators(program)))
    if names:
        raise ModelError(
            f"TVM's PyTorch importer does not support {', '.join(names)}; export a model without "
            "it."
        )


def missing_operators(program: torch.export.ExportedProgram) -> set[Any]:
    """Return the operators that there is no conversion of."""
    known = {*ExportedProgramImporter().create_convert_map(), *OPERATORS}
    calls = (node.target for node in program.graph.nodes if node.op == "call_function")
    return {target for target in calls if target.__name__ not in known}


class _Importer(ExportedProgramImporter):  # type: ignore[misc]
    """TVM's importer, which names results for modules and takes constants as they are.

    Parameters
    ----------
    known : dict of torch.fx.Node to torch.Tensor
        Values that need no code.
    """

    convert_map: dict[str, Convert]

    def __init__(self, known: dict[torch.fx.Node, torch.Tensor]) -> None:
        super().__init__()
        self._known = known

    @property
    def block_builder(self) -> relax.BlockBuilder:
        return self._builder

    @block_builder.setter
    def block_builder(self, _builder: relax.BlockBuilder) -> None:
        self._builder = NamingBuilder()

    def _translate_fx_graph(
        self,
        graph_module: torch.fx.GraphModule,
        nodes: list[torch.fx.Node],
        inputs_vars: dict[str, relax.Var],
        custom_ops: set[str] | None = None,
    ) -> tuple[relax.Expr, ...]:
        original = self.convert_map
        self.convert_map = {name: self._aware(function) for name, function in original.items()}
        try:
            return super()._translate_fx_graph(graph_module, nodes, inputs_vars, custom_ops)
        finally:
            self.convert_map = original

    def _aware(self, function: Convert) -> Convert:
        """Return a conversion that knows which module a node is in, and which nodes are known."""

        def convert_node(node: torch.fx.Node, *importer: Any) -> relax.Expr:
            if node in self._known:
                value = self._known[node].detach().contiguous()
                return relax.const(self._convert_pytorch_tensor_to_tvm(value))
            self._builder.module = _module_of(node)
            return function(node, *importer)

        return convert_node


def _module_of(node: torch.fx.Node) -> str:
    """Return the path of the innermost module that a node is in; "" if it is in none.

    A batch normalisation, which becomes a part of its convolution, goes by the convolution's.
    """
    if "batch_norm" in str(node.target) and "convolution" in str(node.all_input_nodes[0].target):
        node = node.all_input_nodes[0]
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed(stack.values()))[0] if stack else ""
    return str(path).removeprefix("L['self'].")
