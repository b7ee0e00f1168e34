# SPDX-License-Identifier: Apache-2.0
"""Data types and tensors of ONNX as those of NumPy and Relax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...support.errors import ModelError
from ..emitter import Emitter

if TYPE_CHECKING:
    import onnx

_TYPES = {
    "FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8",
    "UINT16", "UINT32", "UINT64",
}  # fmt: skip
"""Those that can be computed in."""


def dtype_of_code(code: int) -> str | None:
    """Return the name of a data type; None for one that cannot be computed in."""
    import onnx

    if code not in onnx.TensorProto.DataType.values():
        return None
    if onnx.TensorProto.DataType.Name(code) not in _TYPES:
        return None
    return str(onnx.helper.tensor_dtype_to_np_dtype(code))


def code_of_dtype(name: str) -> int:
    """Return ONNX's code of a data type that can be computed in."""
    import onnx

    codes = {dtype_of_code(code): code for code in map(onnx.TensorProto.DataType.Value, _TYPES)}
    return int(codes[name])


def type_text(code: int) -> str:
    """Return what ONNX calls a data type."""
    import onnx

    known = code in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(code).lower() if known else f"number {code}"


def name_of_type(emit: Emitter, code: int) -> str:
    """Return the name of a data type that a node computes.

    Raises
    ------
    ModelError
        For one that cannot be computed in.
    """
    name = dtype_of_code(code)
    if name is None:
        raise emit.error(f"has tensors of type {type_text(code)}, which is not supported.")
    return name


def array_of(tensor: onnx.TensorProto, where: str) -> np.ndarray:
    """Return the elements of a tensor.

    Raises
    ------
    ModelError
        For a type that cannot be computed in, or data that do not fit the shape.
    """
    import onnx.numpy_helper

    if dtype_of_code(tensor.data_type) is None:
        raise ModelError(
            f"{where} is a tensor of type {type_text(tensor.data_type)}, which is not supported; "
            "export the model with another type."
        )
    try:
        return onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # onnx and NumPy raise various types
        raise ModelError(f"{where} is damaged: {error}.") from error
