# SPDX-License-Identifier: Apache-2.0
"""Counts of n-grams, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvm_ios
from tvm_ios.errors import ModelError

POOL = [5, 3, 1, 2, 2, 2, 3, 1, 1, 2, 3]
BASE = {
    "pool_int64s": POOL, "ngram_counts": [0, 2, 8], "ngram_indexes": [5, 0, 1, 3, 2, 4],
    "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 2, "mode": "TF",
}  # fmt: skip


def model_of(shape: tuple[int, ...], dtype: str, **attributes: Any) -> onnx.ModelProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("TfIdfVectorizer", ["x"], ["y"], **(BASE | attributes))],
        "g",
        [helper.make_tensor_value_info("x", code, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled(model: onnx.ModelProto, folder: Path) -> tvm_ios.CompiledModel:
    onnx.save(model, folder / "m.onnx")
    return tvm_ios.compile(folder / "m.onnx", search=False, threads=1)


@pytest.mark.parametrize(
    ("shape", "dtype", "attributes"),
    [
        ((17,), "int64", {}),
        ((3, 11), "int32", {"max_skip_count": 0, "mode": "IDF"}),
        ((3, 11), "int64", {"min_gram_length": 2, "max_gram_length": 2, "mode": "TFIDF"}),
        ((2, 9), "int32", {"weights": [0.5] * 6, "mode": "TFIDF"}),
        ((2, 9), "int64", {"ngram_indexes": [0, 1, 2, 3, 4, 5], "weights": [1.5, 2, 3, 4, 5, 6],
                  "mode": "IDF"}),
        ((9,), "int32", {"ngram_indexes": [1, 1, 7, 0, 3, 3]}),
        ((2, 2), "int64", {"min_gram_length": 3}),
        ((1,), "int32", {}),
        ((0,), "int64", {}),
    ],
)  # fmt: skip
def test_counts(
    shape: tuple[int, ...], dtype: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).integers(1, 4, shape).astype(dtype)
    model = model_of(shape, dtype, **attributes)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (right,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(compiled(model, tmp_path)(x), right)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"weights": [1.0, 2, 3, 4, 5, 6]}, "weights that are not in the order of both"),
        ({"pool_int64s": [5, 5, *POOL[2:]]}, "has an n-gram of 1 twice"),
        ({"ngram_counts": [0, 3, 8]}, "has no whole n-grams of 2 from 3 to 8"),
        ({"ngram_counts": [0, 2, 80]}, "has no whole n-grams of 2 from 2 to 80"),
        ({"ngram_indexes": [0, 1]}, "has places for 2 n-grams, but more n-grams"),
        ({"ngram_indexes": [0, 1, -2, 3, 4, 5]}, "needs the places of its n-grams"),
        ({"mode": "count"}, "neither TF, IDF nor TFIDF"),
        ({"pool_strings": ["a"]}, "counts n-grams of text"),
    ],
)
def test_what_is_refused(attributes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=reason):
        compiled(model_of((7,), "int64", **attributes), tmp_path)
