# SPDX-License-Identifier: Apache-2.0
"""One test: what is compiled here, compared with the right answers."""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path

import numpy as np
import onnx

import tvm_ios
from tvm_ios.errors import TvmIosError

from . import onnx_suite
from .outcome import ERROR, REFUSED, RIGHT, SAME, WRONG, Outcome


def outcome_of(name: str, form: str) -> Outcome:
    """Return what comes of a test."""
    case = onnx_suite.cases()[name]
    made = onnx_suite.in_form(case, form)
    if made is None:
        return Outcome(SAME)
    model, inputs = made
    shapes = {v.name: np.shape(a) for v, a in zip(model.graph.input, inputs, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        try:
            compiled = tvm_ios.compile(path, search=False, threads=1, input_shapes=shapes)
            results = compiled(*[np.asarray(array, order="C") for array in inputs])
        except TvmIosError as error:
            text = str(error)
            return Outcome(ERROR if "\n" in text else REFUSED, text)
        except Exception:
            return Outcome(ERROR, traceback.format_exc())
    results = results if isinstance(results, tuple) else (results,)
    said = onnx_suite.difference(results, onnx_suite.expected(case), case.rtol)
    return Outcome(WRONG if said else RIGHT, said)
