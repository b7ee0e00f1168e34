# SPDX-License-Identifier: Apache-2.0
"""Models of narrow types with inputs and outputs of others, which all implementations exchange."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tvm_ios_runtime.bits import NARROW


def widened(
    model: onnx.ModelProto, arrays: Sequence[np.ndarray]
) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Return a model, and its inputs, that casts inputs to narrow types, and outputs from them."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    before = [node for value in wide.graph.input for node in _cast(value, inwards=True)]
    after = [node for value in wide.graph.output for node in _cast(value, inwards=False)]
    nodes = [*before, *wide.graph.node, *after]
    wide.graph.ClearField("node")
    wide.graph.node.extend(nodes)
    return wide, [array.astype(_wide(array.dtype.name) or array.dtype) for array in arrays]


def narrowed(results: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of such a model in the narrow types that they should have."""
    return [
        np.asarray(result).astype(wanted.dtype) if _wide(wanted.dtype.name) else result
        for result, wanted in zip(results, right, strict=True)
    ]


def _wide(name: str) -> str:
    """Return a type that has all numbers of a narrow one; none for any other type."""
    return "float32" if name.startswith(("float8", "float4")) else NARROW.get(name, "")


def _cast(value: onnx.ValueInfoProto, inwards: bool) -> list[onnx.NodeProto]:
    """Change the type and the name of a narrow value; returns the conversion."""
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return []
    narrow = tensor.elem_type
    name = _wide(str(helper.tensor_dtype_to_np_dtype(narrow)))
    if not name:
        return []
    tensor.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(name))
    own, value.name = value.name, f"wide_{value.name}"
    if inwards:
        return [helper.make_node("Cast", [value.name], [own], to=narrow)]
    return [helper.make_node("Cast", [own], [value.name], to=tensor.elem_type)]
