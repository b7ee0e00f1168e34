# SPDX-License-Identifier: Apache-2.0
"""Operators that are defined by a function of others: the model's own, and some of ONNX's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tvm import relax

from ...sizes.size import Size
from ..emitter import dtype_of, shape_of
from .narrow import Narrow
from .operators.table import Value
from .tensors import code_of_dtype

if TYPE_CHECKING:
    import onnx

FunctionId = tuple[str, str, str]
"""The domain, the name and the overload of a function."""


class Functions:
    """The functions that a model's nodes may call."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._local: Mapping[FunctionId, onnx.FunctionProto] = {
            (f.domain, f.name, f.overload): f for f in model.functions
        }

    def local(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the model's own function of a node."""
        return self._local.get((node.domain, node.op_type, node.overload))

    @staticmethod
    def defines(domain: str, name: str, opset: int) -> bool:
        """Return whether ONNX defines an operator by a function."""
        import onnx.defs

        if not onnx.defs.has(name, domain):
            return False
        try:
            schema = onnx.defs.get_schema(name, opset, domain)
        except onnx.defs.SchemaError:
            return False
        return bool(schema.has_function or schema.has_context_dependent_function)

    @staticmethod
    def definition(
        node: onnx.NodeProto, opset: int, inputs: Sequence[Value]
    ) -> tuple[onnx.FunctionProto, list[onnx.AttributeProto]]:
        """Return ONNX's function of a node for inputs of some types, and default attributes.

        Only where :meth:`defines` says that there is one.
        """
        import onnx
        import onnx.defs

        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        defaults = [a.default_value for a in schema.attributes.values() if a.default_value.name]
        function = onnx.FunctionProto()
        if schema.has_context_dependent_function:
            types = [_type_of(value).SerializeToString() for value in inputs]
            versions = schema.context_dependent_function_opset_versions
            version = max(v for v in versions if v <= opset)
            body = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), types
            )
            function.ParseFromString(body)
            return function, defaults
        version = max(v for v in schema.function_opset_versions if v <= opset)
        body = schema.get_function_with_opset_version(version)
        function.ParseFromString(body if isinstance(body, bytes) else body.SerializeToString())
        return function, defaults


def _type_of(value: Value) -> onnx.TypeProto:
    """Return the type of a tensor as ONNX writes it; no type for what is left out."""
    import onnx

    if isinstance(value, Narrow):
        return onnx.helper.make_tensor_type_proto(code_of_dtype(value.dtype), _dims(value.stored))
    if not isinstance(value, relax.Expr):
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(code_of_dtype(dtype_of(value)), _dims(value))


def _dims(x: relax.Expr) -> list[int | str]:
    """Return the dimensions of a tensor; the names of open ones are what they are computed by."""
    return [str(size) if isinstance(size, Size) else size for size in shape_of(x)]
