# SPDX-License-Identifier: Apache-2.0
"""Conversion of an ONNX model by TVM's importer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from ...ops.recurrence import layer_of, recurrence
from ...support.errors import ModelError
from ...support.text import last_line
from ..importing import captured
from ..naming_builder import NamingBuilder
from .inputs import static_shapes
from .names import path_of_node
from .operators import opset_of
from .recurrent import OPERATOR

if TYPE_CHECKING:
    import onnx


def convert(path: Path, model: onnx.ModelProto) -> tvm.IRModule:
    """Convert a model with static input shapes; its inputs keep their names.

    Raises
    ------
    ModelError
        If an operator cannot be converted.
    """
    importer = _Importer(static_shapes(model))
    with captured():
        try:
            return importer.from_onnx(model.graph, opset_of(model))
        except Exception as error:  # the importer raises various types
            where = f"operator {importer.current}" if importer.current else "the model"
            raise ModelError(
                f"TVM's ONNX importer cannot convert {where} of {path}: {last_line(error)}."
            ) from error


class _Importer(ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, which names each result for the node that computes it.

    Parameters
    ----------
    shapes : dict of str to list of int
        Of the inputs; the importer takes an axis of 0 elements in the model for an unknown one.

    Attributes
    ----------
    current : str
        The operator that is being converted.
    """

    def __init__(self, shapes: dict[str, list[int]]) -> None:
        super().__init__(shapes, "float32", sanitize=False)
        self.bb = NamingBuilder()
        self.current = ""

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Leave it to :func:`.operators.check_operators`, which knows our own operators."""

    def _convert_operator(
        self, op_name: str, inputs: list[Any], attrs: dict[str, Any], opset: int
    ) -> relax.Expr:
        self.current = op_name
        self.bb.module = path_of_node(attrs["tvm_custom"]["name"], op_name)
        if op_name == OPERATOR:
            result = recurrence(self.bb, layer_of(attrs["layer"].decode()), list(inputs))
        else:
            result = super()._convert_operator(op_name, inputs, attrs, opset)
        self.current = ""
        if isinstance(result, relax.Call) and isinstance(result.ty, relax.TensorType):
            return self.bb.emit(result)
        return result
