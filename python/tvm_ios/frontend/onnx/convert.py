# SPDX-License-Identifier: Apache-2.0
"""Conversion of an ONNX model to Relax."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import tvm
from tvm import relax

from tvm_ios_runtime.bits import tensor_dtype

from ...ops.narrow import NARROW, with_types
from ...relax_ir.building import building
from ...relax_ir.lengths import Length, with_lengths
from ...sizes.size import AnySize
from ...support.errors import ModelError
from ..limits import Limits
from ..naming_builder import NamingBuilder
from .control import CONTROL
from .counted import Counted
from .functions import Functions
from .graph import GraphConverter
from .inputs import Sizes, inputs_of
from .narrow import Narrow
from .nodes import is_standard, needed_nodes
from .operators import OPERATORS, Value
from .scope import Scope
from .tensors import dtype_of_code, narrow_of_code, type_text

if TYPE_CHECKING:
    import onnx


def convert(path: Path, model: onnx.ModelProto, shapes: Sizes) -> tvm.IRModule:
    """Convert a model with the shapes of its inputs, which keep their names.

    Raises
    ------
    ModelError
        If an operator, an attribute or a type is not supported.
    """
    functions = Functions(model)
    opsets = {("" if is_standard(o.domain) else o.domain): o.version for o in model.opset_import}
    scope = Scope(opsets)
    scope.add_weights(model.graph)
    inputs = [_input(value, shape) for value, shape in _inputs(model, shapes)]
    outputs = [value.name for value in model.graph.output]
    _check_operators(path, model, functions, scope, outputs)
    size = sum(len(t.raw_data) or t.ByteSize() for t in model.graph.initializer)
    limits = Limits.of_network(len(model.graph.node), size)
    builder = NamingBuilder()
    with building(), builder.function("main", [variable for variable, _ in inputs]):
        try:
            with builder.dataflow():
                converter = GraphConverter(builder, functions, limits)
                converter.add_inputs(inputs, scope)
                results = converter.convert(model.graph.node, outputs, scope)
                builder.module = ""
                tensors, lengths = _outputs(model, results)
                whole = tensors[0] if len(tensors) == 1 else relax.Tuple(tensors)
                output = builder.emit_output(whole)
        except BaseException:
            builder.emit_func_output(relax.Tuple([]))  # TVM warns of open functions
            raise
        builder.emit_func_output(output)
    module = builder.finalize()
    module["main"] = with_types(
        with_lengths(module["main"], lengths),
        {i: dtype for i, (variable, dtype) in enumerate(inputs) if dtype in NARROW},
        {i: result.dtype for i, result in enumerate(results) if isinstance(result, Narrow)},
    )
    return module


def _inputs(
    model: onnx.ModelProto, shapes: Sizes
) -> Iterator[tuple[onnx.ValueInfoProto, list[AnySize]]]:
    for value in inputs_of(model):
        yield value, shapes[value.name]


def _input(value: onnx.ValueInfoProto, shape: list[AnySize]) -> tuple[relax.Var, str]:
    """Return an input of the function, and its type in the model."""
    code = value.type.tensor_type.elem_type
    dtype = dtype_of_code(code) or narrow_of_code(code)
    if dtype is None:
        raise ModelError(
            f"Input {value.name!r} is a tensor of type {type_text(code)}, which is not supported; "
            "export the model with another type."
        )
    return relax.Var(value.name, relax.TensorType(shape, tensor_dtype(dtype))), dtype


def _outputs(
    model: onnx.ModelProto, results: Iterable[Value]
) -> tuple[list[relax.Expr], list[Length]]:
    """Return the outputs of the model, with the lengths behind them that are counted."""
    found: list[relax.Expr] = []
    counted: list[tuple[int, Counted]] = []
    for place, (value, result) in enumerate(zip(model.graph.output, results, strict=True)):
        if isinstance(result, Counted):
            counted.append((place, result))
            result = result.tensor
        if not isinstance(result, relax.Expr | Narrow):
            raise ModelError(f"Output {value.name!r} is not a tensor; only tensors can be outputs.")
        found.append(result.stored if isinstance(result, Narrow) else result)
    lengths = [(place, x.axis, len(found) + i) for i, (place, x) in enumerate(counted)]
    return [*found, *(x.count for _, x in counted)], lengths


def _check_operators(
    path: Path, model: onnx.ModelProto, functions: Functions, scope: Scope, outputs: list[str]
) -> None:
    """Raise ModelError with the names of all operators that cannot be converted."""
    unknown = set()
    needed, _ = needed_nodes(model.graph.node, outputs)
    for node in needed:
        domain = "" if is_standard(node.domain) else node.domain
        if functions.local(node) is not None or (domain, node.op_type) in OPERATORS:
            continue
        if domain == "" and node.op_type in CONTROL:
            continue
        if not functions.defines(domain, node.op_type, scope.opsets.get(domain, 1)):
            unknown.add(f"{domain}.{node.op_type}" if domain else node.op_type)
    if unknown:
        raise ModelError(
            f"{path} has operators that are not supported: {', '.join(sorted(unknown))}; export "
            "the model without them."
        )
