# SPDX-License-Identifier: Apache-2.0
"""The zoo among the formats of models, by an entry point of the package."""

from __future__ import annotations

from pathlib import Path

import tvm

from tvm_ios_runtime import TensorInfo

from ..frontend.model_format import ModelFormat, ModelSource
from ..frontend.shapes import check_names
from . import export_onnx, inputs, load, names, sizes

_SCHEME = "zoo:"


def _load(given: ModelSource) -> tvm.IRModule:
    name = given.model.removeprefix(_SCHEME)
    check_names(given.model, given.shapes, [value.name for value in inputs(name)])
    return load(name, **sizes(name, given.shapes, given.batch))


def _export_onnx(given: ModelSource, path: Path) -> None:
    name = given.model.removeprefix(_SCHEME)
    export_onnx(name, path, **sizes(name, given.shapes, given.batch))


def _networks() -> dict[str, list[TensorInfo]]:
    return {
        f"{_SCHEME}{name}": [
            TensorInfo(value.name, value.shape, value.dtype) for value in inputs(name)
        ]
        for name in names()
    }


FORMAT = ModelFormat(
    "zoo:NAME",
    _load,
    scheme=_SCHEME,
    help="zoo:NAME for a network of the built-in zoo, as 'tvm-ios zoo' lists them",
    export_onnx=_export_onnx,
    networks=_networks,
)
