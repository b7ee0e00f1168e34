# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of operators, in several forms."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test.loader import load_model_tests

import tvm_ios
from tvm_ios_runtime.bits import NARROW

from .nested import is_nested, opened
from .outcome import SAME, Outcome
from .suites import FORMS, ONNX
from .trial import tried

AS_IS, DECIDING, WEIGHTS, CONSTANTS = FORMS[ONNX]
"""All inputs are inputs; lists and numbers, which decide shapes, axes and quantisation, are
initialisers; all inputs but the first, of :data:`DECIDED` all inputs, are initialisers; these are
Constant nodes. In all but the first form, the tensors in sequences and optionals are inputs and
outputs, too."""

DECIDED = {
    "BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "If", "Loop",
    "MelWeightMatrix", "Range",
}  # fmt: skip
"""Operators whose first input decides, too: on the shape of the result, or on what is computed."""

_FOREIGN_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training")
_RANDOM = ("bernoulli", "training_dropout")


@cache
def cases() -> dict[str, Any]:
    """Return ONNX's tests by name: without text, training and randomness."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the overflows that some are about
        found = load_model_tests(kind="node")
    return {case.name: case for case in found if _is_ours(case)}


def names(_form: str) -> Collection[str]:
    """Return the tests' names, the same in all forms."""
    return cases().keys()


def outcome_of(name: str, form: str) -> Outcome:
    """Return what comes of a test."""
    case = cases()[name]
    made = in_form(case, form)
    if made is None:
        return Outcome(SAME)
    model, inputs, right = made
    return tried(
        lambda: run(model, inputs),
        lambda results: difference(results, right, case.rtol),
    )


def run(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> Any:
    """Compile a model and call it."""
    shapes = {
        value.name: np.shape(array)
        for value, array in zip(model.graph.input, inputs, strict=True)
        if value.type.HasField("tensor_type")
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        compiled = tvm_ios.compile(path, search=False, threads=1, input_shapes=shapes)
        return compiled(*[np.asarray(array, order="C") for array in inputs])


def _is_ours(case: Any) -> bool:
    if any(opset.domain in _FOREIGN_DOMAINS for opset in case.model.opset_import):
        return False
    if any(word in case.name for word in _RANDOM):
        return False
    values = (*case.model.graph.input, *case.model.graph.output)
    return all(_code_of(value.type) != onnx.TensorProto.STRING for value in values)


def _code_of(type_: onnx.TypeProto) -> int:
    """Return the type of the elements of a tensor, or of the tensors in a sequence or optional."""
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        return int(type_.tensor_type.elem_type)
    return _code_of(getattr(type_, kind).elem_type)


PLAIN, NARROW_TYPES, NESTED = "plain", "narrow", "nested"


def kind_of(name: str) -> str:
    """Return which of the tests one is: of sequences and optionals, of narrow types, or plain."""
    model = cases()[name].model
    if is_nested(model):
        return NESTED
    codes = {_code_of(value.type) for value in (*model.graph.input, *model.graph.output)}
    is_narrow = any(str(onnx.helper.tensor_dtype_to_np_dtype(code)) in NARROW for code in codes)
    return NARROW_TYPES if is_narrow else PLAIN


def operator_of(name: str) -> str:
    """Return the operator that a test is about; that of its function, if it is taken apart."""
    whole = name.split("_expanded")[0]
    return str(cases().get(whole, cases()[name]).model.graph.node[0].op_type)


def in_form(
    case: Any, form: str
) -> tuple[onnx.ModelProto, list[np.ndarray], list[np.ndarray]] | None:
    """Return a test's model, inputs and right outputs; None where a form is the test itself."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    arrays, right = inputs_of(case), expected(case)
    decided = operator_of(case.name) in DECIDED
    nested = form != AS_IS and is_nested(model)
    if nested:
        arrays, right = opened(model, arrays, right)
    fixed = [
        i
        for i, array in enumerate(arrays)
        if (i or decided) and form != AS_IS and (form != DECIDING or array.ndim <= 1)
    ]
    if form != AS_IS and not fixed and not nested:
        return None
    return model, fix(model, arrays, fixed, form == CONSTANTS), right


def inputs_of(case: Any) -> list[np.ndarray]:
    """Return the inputs of a test."""
    return [_array(value) for value in case.data_sets[0][0]]


def fix(
    model: onnx.ModelProto, arrays: Sequence[np.ndarray], places: Collection[int], nodes: bool
) -> list[np.ndarray]:
    """Make initialisers, or Constant nodes, of some inputs of a model; returns the other ones."""
    values = list(model.graph.input)
    for i in places:
        tensor = onnx.numpy_helper.from_array(arrays[i], values[i].name)
        model.graph.input.remove(values[i])
        if nodes:
            node = onnx.helper.make_node("Constant", [], [values[i].name], value=tensor)
            model.graph.node.insert(0, node)
        else:
            model.graph.initializer.append(tensor)
    return [array for i, array in enumerate(arrays) if i not in places]


def expected(case: Any) -> list[np.ndarray]:
    """Return the right outputs of a test."""
    return [_array(value) for value in case.data_sets[0][1]]


def _array(value: Any) -> np.ndarray:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def difference(
    results: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    rtol: float,
    of_largest: bool = False,
) -> str:
    """Return what is wrong with outputs; nothing if they are right.

    The absolute tolerance is 1e-5, 1e-2 in 16 bits, none in fewer; ``of_largest``, of the largest
    element if that is more than 1.
    """
    if len(results) != len(wanted):
        return f"{len(results)} outputs, not {len(wanted)}"
    for result, right in zip(results, wanted, strict=True):
        if result.dtype != right.dtype or result.shape != right.shape:
            return f"{result.dtype} {result.shape}, not {right.dtype} {right.shape}"
        wide = "complex128" if right.dtype.kind == "c" else "float64"
        a, b = (np.asarray(x, order="C").astype(wide) for x in (result, right))
        relative, atol = _tolerance(right.dtype, rtol)
        if of_largest:
            atol *= np.max(np.abs(b), where=np.isfinite(b), initial=1.0)
        with np.errstate(invalid="ignore", over="ignore"):
            close = np.isclose(a, b, rtol=relative, atol=atol, equal_nan=True)
        if not close.all():
            worst = np.nanmax(np.where(close, 0, np.abs(a - b)))
            return f"{int((~close).sum())} of {close.size} elements differ, by {worst:.3g}"
    return ""


def _tolerance(dtype: np.dtype, rtol: float) -> tuple[float, float]:
    """Return the relative and the absolute difference that elements of a type may have."""
    if dtype.name in NARROW:
        return 0.0, 0.0
    is_half = dtype.itemsize <= 2 and dtype.kind not in "iub"
    return (1e-2, 1e-2) if is_half else (rtol, 1e-5)
