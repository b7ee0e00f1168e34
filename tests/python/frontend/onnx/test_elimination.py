# SPDX-License-Identifier: Apache-2.0
"""Determinants of small matrices."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by it)
import numpy as np
import onnx
import onnx.parser
import pytest

import tvm_ios
from tvm_ios.errors import ModelError


def _compiled(shape: tuple[int, ...], kind: str, folder: Path) -> tvm_ios.CompiledModel:
    sizes = ",".join(map(str, shape))
    text = f"""<ir_version: 10, opset_import: ["" : 22]>
      g ({kind}[{sizes}] x) => ({kind} y) {{ y = Det (x) }}"""
    onnx.save(onnx.parser.parse_model(text), folder / "m.onnx")
    return tvm_ios.compile(folder / "m.onnx", search=False, threads=1)


@pytest.mark.parametrize(
    ("shape", "kind", "rtol"),
    [((3, 3), "float16", 1e-3), ((2, 1, 1), "float", 1e-6), ((1, 3, 8, 8), "float", 1e-6),
     ((2, 4, 4), "double", 1e-12), ((2, 0, 0), "float", 0), ((0, 3, 3), "float", 0)],
)  # fmt: skip
def test_determinants(shape: tuple[int, ...], kind: str, rtol: float, tmp_path: Path) -> None:
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    result = np.asarray(_compiled(shape, kind, tmp_path)(x))
    assert (result.dtype, result.shape) == (np.dtype(dtype), shape[:-2])
    np.testing.assert_allclose(result, np.linalg.det(x.astype("float64")), rtol=rtol, atol=1e-6)


def test_rows_are_swapped_and_may_be_the_same(tmp_path: Path) -> None:
    x = np.stack([np.eye(5)[[1, 0, 3, 4, 2]], np.ones((5, 5)), np.diag([0, 1, 2, 3, 4])])
    result = _compiled(x.shape, "float", tmp_path)(x.astype("float32"))
    np.testing.assert_array_equal(result, [-1, 0, 0])


@pytest.mark.parametrize(
    ("shape", "reason"),
    [((9, 9), "is of matrices of 9 rows; from 1 to 8"), ((2, 3), "takes square matrices"),
     ((4,), "takes square matrices")],
)  # fmt: skip
def test_what_is_refused(shape: tuple[int, ...], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=reason):
        _compiled(shape, "float", tmp_path)
