# SPDX-License-Identifier: Apache-2.0
"""What the zoo offers: networks by name, in any batch and size, with weights from a seed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from support.zoo import constants, shape_of
from tvm_ios import zoo
from tvm_ios.errors import ModelError
from tvm_ios.frontend.models import load_model

FULL = (
    "bert_base",
    "bert_base_8",
    "bilstm",
    "convnext_tiny",
    "darts",
    "deep_and_cross",
    "densenet121",
    "dlrm",
    "dpn68",
    "echo",
    "ensemble",
    "experts",
    "googlenet",
    "heads",
    "inception_v3",
    "mixer_b16",
    "mobilenet_v2",
    "nasnet_a_large",
    "nasnet_a_mobile",
    "nasrnn",
    "nf_resnet50",
    "poolformer_s12",
    "randwire_large",
    "randwire_regular",
    "randwire_small",
    "res2net50",
    "resnet18",
    "resnet50",
    "resnext50",
    "rgcn",
    "squeezenet",
    "wavenet",
    "wide_and_deep",
    "xception",
)
REDUCED = (
    "bert_tiny",
    "bilstm_small",
    "convnext_tiny_small",
    "darts_small",
    "deep_and_cross_small",
    "densenet_small",
    "dlrm_small",
    "dpn68_small",
    "echo_small",
    "ensemble_small",
    "experts_small",
    "googlenet_small",
    "heads_small",
    "inception_v3_small",
    "mixer_b16_small",
    "mobilenet_v2_small",
    "nasnet_a_small",
    "nasrnn_small",
    "nf_resnet50_small",
    "poolformer_s12_small",
    "randwire_tiny",
    "res2net50_small",
    "resnet50_small",
    "resnext50_small",
    "rgcn_small",
    "wavenet_small",
    "wide_and_deep_small",
    "xception_small",
)


def test_names() -> None:
    assert zoo.names() == tuple(sorted((*FULL, *REDUCED)))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", [*REDUCED, "squeezenet"])
def test_module_has_one_well_formed_function(name: str, batch: int) -> None:
    mod = zoo.load(name, batch=batch)
    relax.analysis.well_formed(mod)
    others = [var.name_hint for var in mod.get_global_vars() if var.name_hint != "main"]
    assert all(other.startswith("recurrence") for other in others)
    function = mod["main"]
    expected = zoo.inputs(name, batch=batch)
    assert [(p.name, shape_of(p), str(p.ty.dtype)) for p in function.params] == [
        (value.name, value.shape, value.dtype) for value in expected
    ]
    assert shape_of(function.body)[0] == batch
    if expected[0].name == "data":
        assert shape_of(function.body) == (batch, 1000)


def test_inputs() -> None:
    (image,) = zoo.inputs("resnet50", batch=2)
    assert (image.name, image.shape, image.dtype) == ("data", (2, 3, 224, 224), "float32")
    texts = zoo.inputs("bert_base", length=64)
    assert [(t.name, t.shape, t.dtype) for t in texts] == [
        ("tokens", (1, 64), "int32"),
        ("segments", (1, 64), "int32"),
    ]
    assert [v.name for v in zoo.inputs("nasrnn", length=3)] == ["state", "x0", "x1", "x2"]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("squeezenet", {"batch": 2, "image_size": 96}),
        ("nasnet_a_small", {"batch": 2, "image_size": 40}),
        ("randwire_tiny", {"image_size": 48}),
        ("nasrnn_small", {"batch": 2}),
    ],
)
def test_weights_depend_on_the_seed_alone(name: str, other: dict[str, int]) -> None:
    weights = constants(zoo.load(name, seed=7))
    resized = constants(zoo.load(name, seed=7, **other))
    reseeded = constants(zoo.load(name, seed=8))
    assert len(weights) == len(resized) == len(reseeded)
    assert all(map(np.array_equal, weights, resized))
    drawn = [i for i, array in enumerate(weights) if array.ndim]
    assert not any(np.array_equal(weights[i], reseeded[i]) for i in drawn)


def test_a_shorter_text_has_the_same_weights_and_fewer_positions() -> None:
    own, shorter = (constants(zoo.load("bert_tiny", length=length)) for length in (12, 5))
    other = [i for i, (a, b) in enumerate(zip(own, shorter, strict=True)) if a.shape != b.shape]
    assert [(own[i].shape, shorter[i].shape) for i in other] == [((12, 128), (5, 128))]
    own[other[0]] = own[other[0]][:5]
    assert all(map(np.array_equal, own, shorter))


def test_unknown_network_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="inception_v3, inception_v3_small, mixer_b16"):
        zoo.load("squeeze_net")


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("squeezenet", {"batch": 0}, "at least 1"),
        ("squeezenet", {"image_size": 0}, "image_size must be at least 1, got 0"),
        ("squeezenet", {"length": 5}, "squeezenet has no length: give it image_size"),
        ("bert_tiny", {"image_size": 5}, "bert_tiny has no image_size: give it length"),
        ("bert_tiny", {"length": 513}, "a length of at most 512"),
    ],
)
def test_sizes_that_make_no_sense(name: str, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        zoo.load(name, **sizes)


@pytest.mark.parametrize(("name", "smallest"), [("squeezenet", 29), ("inception_v3_small", 75)])
def test_smallest_image(name: str, smallest: int) -> None:
    zoo.load(name, image_size=smallest)
    with pytest.raises(ModelError, match="larger image_size"):
        zoo.load(name, image_size=smallest - 1)


@pytest.mark.parametrize(
    ("name", "shapes", "batch", "expected"),
    [
        ("squeezenet", {}, None, {"batch": 1, "image_size": 224}),
        ("squeezenet", {}, 2, {"batch": 2, "image_size": 224}),
        ("squeezenet", {"data": [2, 3, 96, 96]}, None, {"batch": 2, "image_size": 96}),
        ("squeezenet", {"data": [2, 3, 96, 96]}, 2, {"batch": 2, "image_size": 96}),
        ("bert_base", {"segments": [4, 64]}, None, {"batch": 4, "length": 64}),
        ("nasrnn", {"x1": [3, 512]}, None, {"batch": 3, "length": 5}),
    ],
)
def test_sizes_of_shapes(
    name: str, shapes: dict[str, list[int]], batch: int | None, expected: dict[str, int]
) -> None:
    assert zoo.sizes(name, shapes, batch) == expected


@pytest.mark.parametrize(
    ("name", "shapes", "batch"),
    [
        ("squeezenet", {"data": [1, 3, 96, 97]}, None),
        ("squeezenet", {"data": [1, 4, 96, 96]}, None),
        ("squeezenet", {"data": [1, 3, 96]}, None),
        ("squeezenet", {"data": [1, 3, 96, 96]}, 2),
        ("bert_base", {"tokens": [1, 64], "segments": [1, 65]}, None),
        ("nasrnn", {"x1": [3, 511]}, None),
    ],
)
def test_shapes_that_no_size_has(
    name: str, shapes: dict[str, list[int]], batch: int | None
) -> None:
    with pytest.raises(ModelError, match=f"{name} reads .* does not fit"):
        zoo.sizes(name, shapes, batch)


def test_a_network_by_its_shapes() -> None:
    mod = load_model("zoo:bert_tiny", {"tokens": [2, 7]})
    assert [shape_of(parameter) for parameter in mod["main"].params] == [(2, 7), (2, 7)]
    with pytest.raises(ModelError, match="no input 'data'; its inputs: tokens, segments"):
        load_model("zoo:bert_tiny", {"data": [2, 7]})


def test_export_names_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"tvm-ios\[onnx\]"):
        zoo.export_onnx("squeezenet", tmp_path / "squeezenet.onnx")
