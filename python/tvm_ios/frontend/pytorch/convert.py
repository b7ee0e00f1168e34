# SPDX-License-Identifier: Apache-2.0
"""Conversion of an exported program to Relax."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax

from ...relax_ir.building import building
from ...support.errors import ModelError
from ...support.text import last_line
from ..bindings import Bindings
from ..emitter import constant
from ..limits import Limits
from ..naming_builder import NamingBuilder
from .folding import constants, given
from .node_emitter import AtenEmitter, has_complex, name_of_dtype
from .open_inputs import inputs_of
from .operators import apply, find
from .symbols import Symbols, is_number
from .tensors import array_of

if TYPE_CHECKING:
    import torch

_WITHOUT_RESULT = frozenset((
    "_linalg_check_errors.default",
    "_assert_async.default", "_assert_async.msg", "_assert_scalar.default",
    "_assert_tensor_metadata.default", "sym_constrain_range.default",
    "sym_constrain_range_for_size.default",
))  # fmt: skip
"""Operators that check, and compute nothing."""


def convert(program: torch.export.ExportedProgram, symbols: Symbols) -> tvm.IRModule:
    """Convert a program, with its weights as constants.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    symbols : Symbols
        The sizes that stay open.

    Raises
    ------
    ModelError
        If an operator, an argument or a type is not supported.
    """
    inputs = [node for node in inputs_of(program) if _is_tensor(node)]
    variables = [_variable(node, symbols) for node in inputs]
    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    limits = Limits.of_network(len(program.graph.nodes), size)
    builder = NamingBuilder()
    with building(), builder.function("main", variables):
        try:
            with builder.dataflow():
                converter = _Converter(program, builder, limits, symbols)
                converter.values.update(zip(inputs, variables, strict=True))
                results = converter.results(program.graph)
                builder.module = ""
                output = builder.emit_output(relax.Tuple(results))
        except BaseException:
            builder.emit_func_output(relax.Tuple([]))  # TVM warns of open functions
            raise
        builder.emit_func_output(output)
    return builder.finalize()


def check_operators(program: torch.export.ExportedProgram, symbols: Symbols) -> None:
    """Raise ModelError if there are operators that cannot be converted; it names all of them."""
    for node in program.graph.nodes:
        if not all(map(symbols.knows, getattr(node.meta.get("val"), "shape", ()))):
            raise ModelError(
                f"The operator {node.target} ({node.name}) has a result whose size the data "
                "decide, which is not supported; export a model without it."
            )
    names = sorted(str(target).removeprefix("aten.") for target in missing_operators(program))
    if names:
        raise ModelError(
            f"The program has operators that are not supported: {', '.join(names)}; export a model "
            "without them."
        )


def missing_operators(program: torch.export.ExportedProgram) -> set[Any]:
    """Return the operators that there is no conversion of, in branches, too."""
    known = constants(program)
    graphs = [module.graph for module in program.graph_module.modules() if hasattr(module, "graph")]
    calls = (
        node
        for graph in graphs
        for node in graph.nodes
        if node.op == "call_function" and node not in known
    )
    return {node.target for node in calls if not _is_known(node)}


def _is_known(node: torch.fx.Node) -> bool:
    target = node.target
    others = target is operator.getitem or _checks(target) or _is_branch(target)
    return others or is_number(node) or find(target, has_complex(node)) is not None


def _is_branch(target: Any) -> bool:
    import torch

    return target is torch.ops.higher_order.cond


def _checks(target: Any) -> bool:
    return str(target).removeprefix("aten.") in _WITHOUT_RESULT


def _is_tensor(node: torch.fx.Node) -> bool:
    """Return whether an input is a tensor; another that is given with each call is fixed."""
    return hasattr(node.meta.get("val"), "shape")


def _variable(node: torch.fx.Node, symbols: Symbols) -> relax.Var:
    tensor = node.meta["val"]
    dtype = name_of_dtype(tensor.dtype, f"Input {node.name!r}")
    return relax.Var(node.name, relax.TensorType(symbols.shape(tensor), dtype))


class _Converter:
    """A converter of nodes, in their order.

    Attributes
    ----------
    values : dict of torch.fx.Node to Value
        What has been converted.
    """

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        builder: NamingBuilder,
        limits: Limits,
        symbols: Symbols,
    ) -> None:
        self._builder, self._bindings = builder, Bindings(builder, limits)
        self._symbols = symbols
        self._known: dict[torch.fx.Node, torch.Tensor] = {**given(program), **constants(program)}
        self.values: dict[torch.fx.Node, Any] = {}

    def results(self, graph: torch.fx.Graph) -> list[relax.Expr]:
        """Convert all nodes of a graph that are read, and return the outputs; None is no output."""
        import torch

        for node in graph.nodes:
            if node.op != "call_function" or node in self._known or is_number(node):
                continue
            if node.users:
                self.values[node] = self._converted(node)
        (output,) = (node for node in graph.nodes if node.op == "output")
        results = []
        for value in output.args[0]:
            if isinstance(value, torch.fx.Node) and not is_number(value):
                if value.meta["val"].dtype.is_complex:
                    raise ModelError("The program returns complex numbers, which are not "
                                     "supported; return torch.view_as_real of them.")  # fmt: skip
                results.append(self._value(value))
            elif value is not None:
                raise ModelError(
                    f"The program returns {value!r}, which is no tensor; export a model that "
                    "returns tensors alone."
                )
        return results

    def _converted(self, node: torch.fx.Node) -> Any:
        if node.target is operator.getitem:
            return self._value(node.args[0])[node.args[1]]
        if _checks(node.target):
            return None
        emit = AtenEmitter(self._bindings, node, self._symbols)
        if _is_branch(node.target):
            return self._branch(node, emit)
        entry = find(node.target, has_complex(node))
        if entry is None:
            raise emit.error("is not supported; export the model without it.")
        self._builder.module = module_of(node)
        if emit.is_empty():
            return emit.empty()
        args, kwargs = self._arguments(node.args), self._arguments(node.kwargs)
        try:
            result = apply(entry, emit, node.target._schema, args, kwargs)
            emit.check(result)
            return result
        except ModelError:
            raise
        except Exception as error:  # TVM and NumPy raise various types
            problem = f"cannot be converted: {last_line(error)}"
            raise emit.error(f"{problem.rstrip('.')}.") from error

    def _branch(self, node: torch.fx.Node, emit: AtenEmitter) -> list[relax.Expr]:
        """Convert both branches, which change nothing, and choose from their results."""
        condition, *branches, operands = node.args
        inputs = self._arguments(operands)
        found = []
        for branch in branches:
            graph = getattr(node.graph.owning_module, branch.target).graph
            places = (inner for inner in graph.nodes if inner.op == "placeholder")
            self.values.update(zip(places, inputs, strict=True))
            found.append(self.results(graph))
        chosen = emit.operand(self._value(condition), "bool")
        return [emit(relax.op.where(chosen, *pair)) for pair in zip(*found, strict=True)]

    def _arguments(self, given: Any) -> Any:
        """Return arguments with values in place of nodes, in lists and dictionaries, too."""
        import torch

        if isinstance(given, torch.fx.Node):
            return self._value(given)
        if isinstance(given, tuple | list):
            return [self._arguments(each) for each in given]
        if isinstance(given, dict):
            return {name: self._arguments(each) for name, each in given.items()}
        return given

    def _value(self, node: torch.fx.Node) -> Any:
        """Return what a node computes; a weight is copied when it is first needed."""
        import torch

        if is_number(node):
            return self._number(node.meta["val"])
        if node not in self.values and node in self._known:
            tensor = self._known[node]
            if tensor.is_complex():
                tensor = torch.view_as_real(tensor.resolve_conj())
            name_of_dtype(tensor.dtype, f"The constant {node.name!r}")
            self.values[node] = constant(array_of(tensor))
        return self.values[node]

    def _number(self, value: Any) -> Any:
        """Return a number that is computed from sizes; a truth is as in the example."""
        import torch

        if isinstance(value, torch.SymBool):
            return self._symbols.holds(value.node.expr)
        if isinstance(value, torch.SymFloat):
            return self._symbols.fraction(value)
        return self._symbols.size(value) if isinstance(value, torch.SymInt) else value


def module_of(node: torch.fx.Node) -> str:
    """Return the path of the innermost module that a node is in; "" if it is in none.

    A batch normalisation, which becomes a part of its convolution, goes by the convolution's.
    """
    if "batch_norm" in str(node.target) and "convolution" in str(node.all_input_nodes[0].target):
        node = node.all_input_nodes[0]
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed(stack.values()))[0] if stack else ""
    return str(path).removeprefix("L['self'].")
