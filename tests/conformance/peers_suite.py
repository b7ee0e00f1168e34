# SPDX-License-Identifier: Apache-2.0
"""ONNX's tests on ONNX Runtime and OpenVINO, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino

from . import onnx_suite
from .outcome import REFUSED, RIGHT, Outcome
from .widening import narrowed, widened


def names(_form: str) -> Collection[str]:
    """Return the names of ONNX's tests."""
    return onnx_suite.cases().keys()


def outcome_of(name: str, form: str) -> Outcome:
    """Return whether a test is right as it is, or else with constant lists and numbers."""
    case, said = onnx_suite.cases()[name], ""
    for written in (onnx_suite.AS_IS, onnx_suite.DECIDING):
        made = onnx_suite.in_form(case, written)
        if made is None:
            continue
        model, inputs, right = made
        try:
            results = narrowed(_PEERS[form](*widened(model, inputs)), right)
            said = onnx_suite.difference(results, right, case.rtol)
        except Exception as error:  # each has types of its own
            said = str(error)
        if not said:
            return Outcome(RIGHT)
    return Outcome(REFUSED, said)


def _by_onnx_runtime(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> Sequence[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in model.graph.input]
    return [np.asarray(r) for r in session.run(None, dict(zip(names, inputs, strict=True)))]


def _by_openvino(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> Sequence[Any]:
    core = openvino.Core()
    hints = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", hints)
    results = compiled(list(inputs))
    return [results[output] for output in compiled.outputs]


_PEERS: dict[str, Callable[[onnx.ModelProto, Sequence[np.ndarray]], Sequence[Any]]] = {
    "ONNX Runtime": _by_onnx_runtime,
    "OpenVINO": _by_openvino,
}
