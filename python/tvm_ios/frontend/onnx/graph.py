# SPDX-License-Identifier: Apache-2.0
"""Conversion of the nodes of a graph, in their order.

All shapes are static, so that a node's inputs say what it computes: shapes are constants, and so is
what is computed from constants. A branch that a constant chooses is a part of the graph, and so is
the body of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax

from ...sizes.examples import OtherExample
from ...sizes.size import OpenSizes, is_open, owner_of
from ...support.errors import ModelError
from ...support.progress import counting
from ...support.text import last_line
from ..bindings import Bindings
from ..emitter import constant, constant_array, dtype_of, is_constant, shape_of
from ..limits import Limits
from ..naming_builder import NamingBuilder
from ..parts import Captures, Part, part, part_of_open_sizes
from .control import CONTROL
from .counted import Counted
from .counted_rules import Call, convert_counted
from .folding import fold
from .functions import Functions
from .names import path_of_node
from .narrow import given, tensor_of
from .node_emitter import NodeEmitter
from .nodes import described, is_standard, needed_nodes
from .operators import Entry, Value, apply, find
from .scope import Scope
from .size_folding import fold_sizes
from .values import tensors_of

if TYPE_CHECKING:
    import onnx


class Graphs:
    """The graphs inside a node.

    Parameters
    ----------
    converter : GraphConverter
    scope : Scope
        What they read from outside.
    """

    def __init__(self, converter: GraphConverter, scope: Scope) -> None:
        self._converter, self._scope = converter, scope

    def known(self, name: str) -> np.ndarray | None:
        """Return the number of a value around the node, or open sizes; None if it is computed."""
        return self._converter.known(self._scope.find(name))

    def inline(self, graph: onnx.GraphProto) -> Convert:
        """Return what converts a graph, for each time that it is given inputs."""
        return self._converter.body(graph, self._scope)

    def part(
        self,
        name: str,
        graph: onnx.GraphProto,
        inputs: Inputs,
        parameters: Sequence[relax.Var],
        leading: Sequence[relax.Expr] = (),
    ) -> tuple[Part, list[Value]]:
        """Convert a graph to a function of its own; return it, and its outputs inside of it."""
        return self._converter.part(name, graph, inputs, parameters, leading, self._scope)


_WANT_INTS = (TypeError, AttributeError, NotImplementedError)
"""What converters raise that have not been written for open sizes."""
_NOT_OPEN = "is not supported with dimensions that stay open; give their sizes."

Inputs = Callable[[Callable[[relax.Expr], relax.Expr]], Sequence[Value]]

Convert = Callable[[Sequence[Value]], list[Value]]
"""Converts a graph from its inputs to its outputs."""


class GraphConverter:
    """A converter of nodes to bindings.

    Parameters
    ----------
    builder : NamingBuilder
        A builder inside the dataflow block that receives the bindings.
    functions : Functions
    limits : Limits
    """

    def __init__(self, builder: NamingBuilder, functions: Functions, limits: Limits) -> None:
        self._builder, self._functions, self._limits = builder, functions, limits
        self._bindings = Bindings(builder, limits)
        self._inputs: list[relax.Var] = []
        self._opened: OpenSizes | None = None
        self._around: list[Captures] = []  # of the parts around what is converted

    def add_inputs(self, variables: Sequence[tuple[relax.Var, str]], scope: Scope) -> None:
        """Enter the inputs of the model, with their types, by name."""
        self._inputs = [variable for variable, _ in variables]
        self._opened = owner_of(n for variable, _ in variables for n in variable.ty.shape.values)
        for variable, dtype in variables:
            emit = NodeEmitter(self._bindings, f"Input {variable.name!r}", 1, ())
            is_narrow = dtype != dtype_of(variable)
            value = given(emit, variable, dtype) if is_narrow else variable
            scope.values[variable.name] = value

    def convert(
        self, nodes: Iterable[onnx.NodeProto], outputs: Sequence[str], scope: Scope
    ) -> list[Value]:
        """Convert the nodes that outputs depend on, and return those.

        Parameters
        ----------
        nodes : iterable of NodeProto
        outputs : sequence of str
        scope : Scope
            Receives what the nodes compute.

        Raises
        ------
        ModelError
            If a node cannot be converted.
        """
        needed, names = needed_nodes(nodes, outputs)
        for node in counting(needed, len(needed), "nodes"):
            wanted = [name in names for name in node.output]
            try:
                results = self._node(node, wanted, scope)
            except (ModelError, OtherExample):
                raise
            except Exception as error:  # TVM, onnx and NumPy raise various types
                if self._reads_open(node, scope) and isinstance(error, _WANT_INTS):
                    raise ModelError(f"{described(node)} {_NOT_OPEN}") from error
                problem = f"{described(node)} cannot be converted: {last_line(error)}"
                raise ModelError(f"{problem.rstrip('.')}.") from error
            for name, value, is_wanted in zip(node.output, results, wanted, strict=False):
                if name:
                    scope.values[name] = value
                if is_wanted and value is None and node.op_type != "Optional":
                    raise ModelError(f"{described(node)} does not compute {name!r}.")
        return [scope.find(name) for name in outputs]

    def _node(self, node: onnx.NodeProto, wanted: Sequence[bool], scope: Scope) -> Sequence[Value]:
        """Return the outputs of a node."""
        self._limits.spend("parts", 1, described(node))
        domain = "" if is_standard(node.domain) else node.domain
        inputs = [scope.find(name) for name in node.input]
        function = self._functions.local(node)
        if function is not None:
            return self._call(node, function, inputs, (), wanted, scope)
        opset = scope.opsets.get(domain, 1)
        self._builder.module = path_of_node(node.name, node.op_type)
        emit = NodeEmitter(self._bindings, described(node), opset, wanted)
        if domain == "" and node.op_type in CONTROL:
            control = CONTROL[node.op_type]
            return _several(control(emit, node, inputs, Graphs(self, scope)))
        attributes = self._attributes(node, emit, scope)
        if domain == "" and inputs and all(x is None or _is_known(x) for x in inputs):
            arrays = [None if x is None else constant_array(x) for x in inputs]
            folded = fold(_resolved(node, scope), opset, arrays)
            if folded is not None:
                return [constant(array) for array in folded]
        numbers = self._numbers(domain, node, inputs, attributes)
        if numbers is not None:
            return [emit.sizes(array, dtype) for array, dtype in numbers]
        entry = find(domain, node.op_type, opset)
        if entry is not None:
            return _several(_applied(entry, node, emit, inputs, attributes))
        if self._functions.defines(domain, node.op_type, opset):
            defined, defaults = self._functions.definition(_resolved(node, scope), opset, inputs)
            return self._call(node, defined, inputs, defaults, wanted, scope)
        raise emit.error("is not supported; export the model without it.")

    def _numbers(
        self,
        domain: str,
        node: onnx.NodeProto,
        inputs: Sequence[Value],
        attributes: Mapping[str, Any],
    ) -> list[tuple[np.ndarray, str]] | None:
        """Return what a node computes from open sizes; None if it does something else."""
        tensors = [x for x in inputs if x is not None]
        if domain or not any(self._sizes_in(x) is not None for x in tensors):
            return None
        arrays = [None if x is None else self.known(x) for x in inputs]
        if sum(array is None for array in arrays) > len(inputs) - len(tensors):
            return None
        dtypes = [dtype_of(x) for x in tensors if isinstance(x, relax.Expr)]
        return fold_sizes(node.op_type, arrays, attributes, dtypes)

    def _reads_open(self, node: onnx.NodeProto, scope: Scope) -> bool:
        """Return whether an input of a node has open sizes, or is computed from them."""
        tensors = [x for name in node.input for x in tensors_of(scope.find(name))]
        return any(is_open(shape_of(x)) or self._sizes_in(x) is not None for x in tensors)

    def _sizes_in(self, value: Value) -> np.ndarray | None:
        return self._bindings.sizes_in(value) if isinstance(value, relax.Expr) else None

    def known(self, value: Value) -> np.ndarray | None:
        """Return the value of a constant, or of numbers some of which are open sizes."""
        sizes = self._sizes_in(value)
        if sizes is None and isinstance(value, relax.Expr):
            return constant_array(value)
        return sizes

    def _call(
        self,
        node: onnx.NodeProto,
        function: onnx.FunctionProto,
        inputs: Sequence[Value],
        defaults: Iterable[onnx.AttributeProto],
        wanted: Sequence[bool],
        scope: Scope,
    ) -> Sequence[Value]:
        """Convert the body of a function in place of a node."""
        given = {a.name: a for a in (*defaults, *function.attribute_proto)}
        given.update((a.name, _referred(a, scope)) for a in node.attribute)
        names = [*function.input]
        if len(inputs) > len(names):
            raise ModelError(f"{described(node)} has {len(inputs)} inputs, but takes {len(names)}.")
        values = dict.fromkeys(names)
        values.update(zip(names, inputs, strict=False))
        opsets = {("" if is_standard(o.domain) else o.domain): o.version
                  for o in function.opset_import}  # fmt: skip
        body = Scope(
            opsets={**scope.opsets, **opsets},
            attributes={name: a for name, a in given.items() if a is not None},
            values=values,
        )
        pairs = list(zip(function.output, wanted, strict=False))
        found = iter(self.convert(function.node, [name for name, used in pairs if used], body))
        return [next(found) if used else None for _, used in pairs]

    def body(self, graph: onnx.GraphProto, scope: Scope) -> Convert:
        """Return what converts a graph inside a node, for each time that it is given inputs."""
        weights = Scope(scope.opsets, scope.attributes, outer=scope)
        weights.add_weights(graph)
        names = [value.name for value in graph.input]
        outputs = [value.name for value in graph.output]

        def convert(inputs: Sequence[Value]) -> list[Value]:
            inner = Scope(scope.opsets, scope.attributes, outer=weights)
            inner.values.update(zip(names, inputs, strict=False))
            return self.convert(graph.node, outputs, inner)

        return convert

    def part(
        self,
        name: str,
        graph: onnx.GraphProto,
        inputs: Inputs,
        parameters: Sequence[relax.Var],
        leading: Sequence[relax.Expr],
        scope: Scope,
    ) -> tuple[Part, list[Value]]:
        """Convert a graph inside a node to a function; return it, and its outputs inside of it.

        Parameters
        ----------
        name : str
            What the function's name begins with.
        graph : GraphProto
        inputs : callable
            Returns the graph's inputs, made of the parameters and of values around the function,
            for which it is given what returns those inside.
        parameters : sequence of relax.Var
        leading : sequence of relax.Expr
            What the function returns before the outputs.
        scope : Scope
            What the graph reads from outside.
        """
        outputs: list[Value] = []

        def convert(captures: Captures) -> list[relax.Expr]:
            around = Scope(scope.opsets, scope.attributes, outer=scope, captures=captures)
            self._around.append(captures)
            try:
                outputs.extend(self.body(graph, around)(inputs(captures.of)))
                self._capture_sizes([*parameters, *captures.parameters.values()])
            finally:
                self._around.pop()
            return [*leading, *tensors_of(tuple(outputs))]

        module = self._builder.module
        own_name = self._builder.part_name(name)
        if self._opened is None:
            made = part(self._bindings, own_name, parameters, convert)
        else:
            made = part_of_open_sizes(self._bindings, own_name, parameters, convert, self._opened)
        self._builder.module = module
        return made, outputs

    def _capture_sizes(self, known: Sequence[relax.Var]) -> None:
        """Let the part read inputs whose shapes tell dimensions that those of others do not."""
        if self._opened is None:
            return
        told = _dimensions(known)
        for variable in self._inputs:
            if not _dimensions([variable]) <= told:
                value: relax.Expr = variable
                for captures in self._around:
                    value = captures.of(value)
                told |= _dimensions([variable])

    def _attributes(self, node: onnx.NodeProto, emit: NodeEmitter, scope: Scope) -> dict[str, Any]:
        found = {a.name: _referred(a, scope) for a in node.attribute}
        return {name: _value(a, emit) for name, a in found.items() if a is not None}


def _dimensions(variables: Iterable[relax.Var]) -> set[tvm.ir.Var]:
    """Return the dimensions that shapes have as they are, not as parts of expressions."""
    sizes = (size for variable in variables for size in variable.ty.shape.values)
    return {size for size in sizes if isinstance(size, tvm.ir.Var)}


def _applied(
    entry: Entry,
    node: onnx.NodeProto,
    emit: NodeEmitter,
    inputs: Sequence[Value],
    attributes: Mapping[str, Any],
) -> Value:
    """Convert a node by a converter of its operator."""
    if not any(isinstance(value, Counted) for value in inputs):
        return apply(entry, emit, inputs, attributes)
    call = Call(emit, inputs, attributes, lambda its, named: apply(entry, emit, its, named))
    return convert_counted(described(node).partition(" ")[0], call)


def _several(result: Value) -> tuple[Value, ...]:
    return result if isinstance(result, tuple) else (result,)


def _is_known(value: Value) -> bool:
    return isinstance(value, relax.Expr) and is_constant(value)


def _referred(attribute: onnx.AttributeProto, scope: Scope) -> onnx.AttributeProto | None:
    """Return an attribute, or that of the function's call that it stands for."""
    if not attribute.ref_attr_name:
        return attribute
    return scope.attributes.get(attribute.ref_attr_name)


def _resolved(node: onnx.NodeProto, scope: Scope) -> onnx.NodeProto:
    """Return a node whose attributes do not stand for those of a call."""
    import onnx

    if not any(a.ref_attr_name for a in node.attribute):
        return node
    result = onnx.NodeProto()
    result.CopyFrom(node)
    del result.attribute[:]
    for attribute in node.attribute:
        found = _referred(attribute, scope)
        if found is not None:
            result.attribute.add().CopyFrom(found)
            result.attribute[-1].name = attribute.name
    return result


def _value(attribute: onnx.AttributeProto, emit: NodeEmitter) -> Any:
    """Return the value of an attribute; text as str, and a tensor as a constant."""
    import onnx

    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return tensor_of(value, f"The attribute {attribute.name!r} of {emit.where}")
    if isinstance(value, Sequence) and any(isinstance(item, bytes) for item in value):
        return [item.decode() for item in value]
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
