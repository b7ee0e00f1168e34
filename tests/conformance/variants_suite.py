# SPDX-License-Identifier: Apache-2.0
"""ONNX's tests in other types and versions, whose right answers ONNX Runtime knows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from . import onnx_suite
from .outcome import Outcome
from .trial import tried
from .variants import NARROW, variants

_RTOL = 1e-3
_OTHERWISE = {"MaxUnpool"}
"""Operators of which ONNX Runtime fails some of ONNX's tests."""
_NARROW = {helper.np_dtype_to_tensor_dtype(dtype) for dtype in NARROW}


def names(form: str) -> Collection[str]:
    """Return the names of the variants in types, or in versions."""
    return variants(form).keys()


def outcome_of(name: str, form: str) -> Outcome:
    """Return what comes of a variant; it must be refused where nothing says what is right."""
    variant = variants(form)[name]

    def difference(results: Sequence[np.ndarray]) -> str:
        if right is None:
            return "it is not refused, though there is no reference for it"
        return onnx_suite.difference(results, right, _RTOL, of_largest=True)

    right = _reference(variant.model, variant.inputs)
    return tried(lambda: onnx_suite.run(variant.model, variant.inputs), difference)


def _reference(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Return what a model computes, numbers of 16 bits in 32; None if that is not known."""
    kinds = [value.type.tensor_type.elem_type for value in model.graph.output]
    wide = _widened(model)
    kept = [value.type.tensor_type.elem_type for value in wide.graph.input]
    types = map(helper.tensor_dtype_to_np_dtype, kept)
    operands = [array.astype(dtype) for array, dtype in zip(inputs, types, strict=True)]
    given = dict(zip((value.name for value in wide.graph.input), operands, strict=True))
    results = _by_onnx_runtime(wide, given) or _by_reference(wide, given)
    return results and [
        np.asarray(result).astype(helper.tensor_dtype_to_np_dtype(kind))
        if kind in _NARROW
        else np.asarray(result)
        for result, kind in zip(results, kinds, strict=True)
    ]


def _by_onnx_runtime(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[Any] | None:
    if model.graph.node[0].op_type in _OTHERWISE:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, given))
    except Exception:  # it has types of its own for each error
        return None


def _by_reference(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[Any] | None:
    kinds = [value.type.tensor_type.elem_type for value in model.graph.output]
    types = [helper.tensor_dtype_to_np_dtype(kind) for kind in kinds]
    if _interpolates(model.graph.node[0]) and types[0].kind in "iu":
        return None  # it rounds, where ONNX Runtime truncates
    try:
        results = ReferenceEvaluator(model).run(None, given)
    except Exception:  # it raises all kinds
        return None
    return [np.asarray(r).astype(t) for r, t in zip(results, types, strict=True)]  # sums are wider


def _interpolates(node: onnx.NodeProto) -> bool:
    modes = [a.s for a in node.attribute if a.name == "mode"]
    return node.op_type == "Resize" and modes not in ([], [b"nearest"])


def _widened(model: onnx.ModelProto) -> onnx.ModelProto:
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    if model.graph.node[0].op_type == "BitCast":
        return wide
    for value in (*wide.graph.input, *wide.graph.output):
        if value.type.tensor_type.elem_type in _NARROW:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for tensor in wide.graph.initializer:
        if tensor.data_type in _NARROW:
            array = numpy_helper.to_array(tensor).astype("float32")
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return wide
