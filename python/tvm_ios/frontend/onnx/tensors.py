# SPDX-License-Identifier: Apache-2.0
"""Data types and tensors of ONNX as those of NumPy and Relax."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from tvm_ios_runtime.bits import numpy_dtype

from ...support.errors import ModelError
from ..emitter import Emitter

if TYPE_CHECKING:
    import onnx

_TYPES = {
    "FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8",
    "UINT16", "UINT32", "UINT64",
}  # fmt: skip
"""Those that can be computed in."""

_NARROW = {
    "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "FLOAT4E2M1",
    "INT4", "UINT4", "INT2", "UINT2",
}  # fmt: skip
"""Those that can be converted from and to others."""


def dtype_of_code(code: int) -> str | None:
    """Return the name of a data type; None for one that cannot be computed in."""
    return _name_of(code, _TYPES)


def narrow_of_code(code: int) -> str | None:
    """Return the name of a data type that can be converted alone; None for any other."""
    return _name_of(code, _NARROW)


def _name_of(code: int, types: Collection[str]) -> str | None:
    """Return NumPy's name of a data type if it is one of some of ONNX's."""
    import onnx

    if code not in onnx.TensorProto.DataType.values():
        return None
    if onnx.TensorProto.DataType.Name(code) not in types:
        return None
    return str(onnx.helper.tensor_dtype_to_np_dtype(code))


def code_of_dtype(name: str) -> int:
    """Return ONNX's code of a data type."""
    import onnx

    return int(onnx.helper.np_dtype_to_tensor_dtype(numpy_dtype(name)))


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
        For a type that is not supported, or data that do not fit the shape.
    """
    import onnx.numpy_helper

    if _name_of(tensor.data_type, _TYPES | _NARROW) is None:
        raise ModelError(
            f"{where} is a tensor of type {type_text(tensor.data_type)}, which is not supported; "
            "export the model with another type."
        )
    try:
        return onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # onnx and NumPy raise various types
        raise ModelError(f"{where} is damaged: {error}.") from error
