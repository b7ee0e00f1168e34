# SPDX-License-Identifier: Apache-2.0
"""ONNX's tests with open dimensions: one library for any sizes, called with those of the test."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tvm_ios.api import CompiledModel
from tvm_ios.backend.registry import kind_of
from tvm_ios.compiler import steps
from tvm_ios.frontend.models import load_model
from tvm_ios.measure.transport.locations import LocalRunner
from tvm_ios.schedule.options import Options
from tvm_ios.sizes.size import OpenSizes
from tvm_ios.support.errors import ModelError

from . import onnx_suite
from .outcome import REFUSED, SAME, Outcome
from .suites import FORMS, OPEN
from .trial import tried

BATCH, DATA, ALL = FORMS[OPEN]
"""The first dimension of all inputs is open; all dimensions of the first input, the other inputs
are weights; all dimensions of all inputs. Lists and numbers behind the first input are weights in
all forms. Dimensions of one size have one name, and those of 1 stay."""

_REFUSAL = re.compile("sizes of the inputs must fulfil|; give inputs in which|The model takes ")
"""What a library says of sizes that it does not take."""


def names(_form: str) -> Collection[str]:
    """Return the tests' names, the same in all forms."""
    return onnx_suite.cases().keys()


def outcome_of(name: str, form: str) -> Outcome:
    """Return what comes of a test; of sizes that the library refuses, too."""
    case = onnx_suite.cases()[name]
    fixed = onnx_suite.WEIGHTS if form == DATA else onnx_suite.DECIDING
    made = onnx_suite.in_form(case, fixed) or onnx_suite.in_form(case, onnx_suite.AS_IS)
    assert made is not None, "a test is itself in its first form"
    model, inputs, right = made
    if not opened(model, inputs, form):
        return Outcome(SAME)
    refused: list[str] = []

    def compute() -> Any:
        compiled = _compiled(model)
        try:
            return compiled(*[np.asarray(array, order="C") for array in inputs])
        except (RuntimeError, ValueError) as error:
            said = next((line for line in str(error).splitlines() if _REFUSAL.search(line)), None)
            if said is None:
                raise
            refused.append(said)
            raise ModelError("its library refuses the sizes") from error

    outcome = tried(compute, lambda results: onnx_suite.difference(results, right, case.rtol))
    return Outcome(REFUSED, refused[0]) if refused else outcome


def opened(model: onnx.ModelProto, inputs: Sequence[np.ndarray], form: str) -> bool:
    """Open dimensions of a model's inputs; returns whether there are any."""
    found = False
    for value, array in zip(model.graph.input, inputs, strict=True):
        if not value.type.HasField("tensor_type"):
            continue
        shape = value.type.tensor_type.shape
        shape.ClearField("dim")
        shape.SetInParent()
        for axis, size in enumerate(np.shape(array)):
            dim = shape.dim.add()
            if size > 1 and (form in (ALL, DATA) or axis == 0):
                dim.dim_param, found = f"n{size}", True
            else:
                dim.dim_value = size
    return found


def _compiled(model: onnx.ModelProto) -> CompiledModel:
    """Compile a model for any sizes, or fail: not for two batches, which would do for some."""
    kind, runner = kind_of("llvm"), LocalRunner(0)
    target = steps.resolve(kind, "llvm", 1, runner, runs=True)
    sizes = OpenSizes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        module = load_model(str(path), opened=sizes)
        scheduler = steps.prepare(kind, module, target, Options(), runner)
        library = Path(folder, "model.so")
        steps.write(steps.build(scheduler, scheduler.unsearched()), library)
        return CompiledModel(library)
