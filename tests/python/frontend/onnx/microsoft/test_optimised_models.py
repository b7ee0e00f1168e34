# SPDX-License-Identifier: Apache-2.0
"""Transformers as ONNX Runtime's optimisers write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.fusion_options import FusionOptions

import tvm_ios
from support.contributed import DOMAIN, by_onnx_runtime
from support.transformers import BATCH, HEADS, LENGTH, WIDTH, bert_like, gpt_like

MODELS = {"bert": bert_like, "gpt2": gpt_like}


def by_graph_optimiser(model: onnx.ModelProto, _kind: str, path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def by_transformer_optimiser(
    model: onnx.ModelProto, kind: str, path: Path, *, separate: bool = False, half: bool = False
) -> None:
    options = FusionOptions(kind)
    options.use_multi_head_attention = separate
    options.enable_shape_inference = False  # which needs SymPy
    onnx.save(model, path)
    found = optimizer.optimize_model(
        str(path),
        kind,
        num_heads=HEADS,
        hidden_size=WIDTH,
        optimization_options=options,
        opt_level=0,
    )
    if half:
        found.model = convert_float_to_float16(
            found.model, keep_io_types=True, disable_shape_infer=True
        )
    found.save_model_to_file(str(path))


def in_parts(model: onnx.ModelProto, kind: str, path: Path) -> None:
    by_transformer_optimiser(model, kind, path, separate=True)


def in_16_bits(model: onnx.ModelProto, kind: str, path: Path) -> None:
    by_transformer_optimiser(model, kind, path, half=True)


CASES = [
    ("bert", by_graph_optimiser, {"FusedMatMul", "Gelu", "SkipLayerNormalization"}),
    ("gpt2", by_graph_optimiser, {"FusedMatMul", "FastGelu", "SkipLayerNormalization"}),
    ("bert", by_transformer_optimiser, {"Attention", "BiasGelu", "SkipLayerNormalization"}),
    ("bert", in_parts, {"MultiHeadAttention", "BiasGelu", "SkipLayerNormalization"}),
    (
        "gpt2",
        in_16_bits,
        {"Attention", "EmbedLayerNormalization", "FastGelu", "SkipLayerNormalization"},
    ),
]


@pytest.mark.parametrize(("kind", "optimise", "written"), CASES)
def test_optimised_model(
    kind: str,
    optimise: Callable[[onnx.ModelProto, str, Path], None],
    written: set[str],
    tmp_path: Path,
) -> None:
    """The result is that of the model as it was; its images are padded at their ends."""
    model = MODELS[kind]()
    random = np.random.default_rng(0)
    given = [random.integers(0, 2, (BATCH, LENGTH)) for _ in model.graph.input]
    if kind == "bert":
        given[2] = (np.arange(LENGTH) < np.array([[LENGTH], [4]])).astype("int64")
    optimise(model, kind, tmp_path / "m.onnx")
    nodes = onnx.load(tmp_path / "m.onnx").graph.node
    assert {node.op_type for node in nodes if node.domain == DOMAIN} == written
    result = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)(*given)
    (wanted,) = by_onnx_runtime(model, given)
    error = np.abs(result - wanted).max() / np.abs(wanted).max()
    assert error < (1e-2 if optimise is in_16_bits else 1e-5)
