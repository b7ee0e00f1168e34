# SPDX-License-Identifier: Apache-2.0
"""The zoo builds the networks of the papers, and the same ones in Relax and in ONNX."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_ios import zoo
from tvm_ios.errors import ModelError

# TVM's default kernels are slow: the numbers are compared on small images.
SMALL_CASES = [
    ("squeezenet", 1, 64),
    ("squeezenet", 2, 33),
    ("inception_v3_small", 2, 75),
    ("inception_v3", 1, 75),
]


def _calls(mod: tvm.IRModule, op_name: str) -> list[relax.Call]:
    """Return the calls of an operator, in the order of their bindings."""
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    return [value for value in values if isinstance(value, relax.Call) and value.op.name == op_name]


def _shape(expr: relax.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in expr.ty.shape)


def _constants(mod: tvm.IRModule) -> list[np.ndarray]:
    constants: list[np.ndarray] = []

    def collect(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            constants.append(expr.value.numpy())

    relax.analysis.post_order_visit(mod["main"], collect)
    return constants


def _multiply_accumulates(mod: tvm.IRModule) -> int:
    convs = sum(
        np.prod(_shape(call)) * np.prod(_shape(call.args[1])[1:])
        for call in _calls(mod, "relax.nn.conv2d")
    )
    dense = sum(
        np.prod(_shape(call)) * _shape(call.args[1])[0] for call in _calls(mod, "relax.matmul")
    )
    return int(convs + dense)


def _image(batch: int, image_size: int) -> np.ndarray:
    shape = (batch, 3, image_size, image_size)
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _run_relax(mod: tvm.IRModule, image: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(image)).numpy()


def _run_onnx(path: Path, image: np.ndarray) -> np.ndarray:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"data": image})
    return logits


def _assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()


def test_names() -> None:
    assert zoo.names() == ("inception_v3", "inception_v3_small", "squeezenet")


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("name", "image_size"), [("squeezenet", 224), ("inception_v3", 299), ("inception_v3_small", 75)]
)
def test_module_has_one_well_formed_function(name: str, batch: int, image_size: int) -> None:
    mod = zoo.load(name, batch=batch)
    relax.analysis.well_formed(mod)
    assert [var.name_hint for var in mod.get_global_vars()] == ["main"]
    (parameter,) = mod["main"].params
    assert _shape(parameter) == (batch, 3, image_size, image_size)
    assert _shape(mod["main"].body) == (batch, 1000)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Often given as 0.861e9: the authors' Caffe model pads conv10, unlike table 1 of the paper.
        ("squeezenet", 0.836e9),
        ("inception_v3", 5.713e9),
    ],
)
def test_multiply_accumulates(name: str, expected: float) -> None:
    assert _multiply_accumulates(zoo.load(name)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("squeezenet", 1_248_424),  # table 1 of the paper
        # Without the auxiliary head, and two running statistics for each of 17,216 channels.
        ("inception_v3", 23_834_568 + 2 * 17_216),
    ],
)
def test_parameters(name: str, expected: int) -> None:
    assert sum(constant.size for constant in _constants(zoo.load(name))) == expected


def test_inception_grids() -> None:
    """The maps that the blocks A, B, C, D and E make are those of the paper's table 1."""
    shapes = [_shape(call)[1:] for call in _calls(zoo.load("inception_v3"), "relax.concat")]
    expected = [(256, 35, 35), *[(288, 35, 35)] * 2, *[(768, 17, 17)] * 5]
    assert shapes == [*expected, (1280, 8, 8), *[(2048, 8, 8)] * 2]


def test_squeezenet_grids() -> None:
    shapes = [_shape(call)[1:] for call in _calls(zoo.load("squeezenet"), "relax.concat")]
    fires = {55: (128, 128, 256), 27: (256, 384, 384, 512), 13: (512,)}
    assert shapes == [(c, size, size) for size, channels in fires.items() for c in channels]


def test_small_inception_has_channels_that_fill_no_block() -> None:
    convs = _calls(zoo.load("inception_v3_small"), "relax.nn.conv2d")
    assert {8, 12, 20, 24} <= {_shape(call)[1] for call in convs}


def test_batch_norms_are_left_to_the_compiler() -> None:
    mod = zoo.load("inception_v3")
    norms = _calls(mod, "relax.nn.batch_norm")
    assert len(norms) == len(_calls(mod, "relax.nn.conv2d")) == 94
    assert not any(norm.attrs.training for norm in norms)


@pytest.mark.parametrize(("name", "batch", "image_size"), SMALL_CASES)
def test_relax_equals_onnx_runtime(name: str, batch: int, image_size: int, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    zoo.export_onnx(name, path, batch=batch, image_size=image_size)
    image = _image(batch, image_size)
    expected = _run_onnx(path, image)
    assert 0.1 < expected.std() < 10, "the activations neither vanish nor explode"
    _assert_close(_run_relax(zoo.load(name, batch=batch, image_size=image_size), image), expected)


@pytest.mark.parametrize(("name", "image_size"), [("squeezenet", 33), ("inception_v3_small", 75)])
def test_tvm_imports_the_onnx_file(name: str, image_size: int, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from tvm.relax.frontend.onnx import from_onnx

    path = tmp_path / f"{name}.onnx"
    zoo.export_onnx(name, path, image_size=image_size)
    imported = from_onnx(onnx.load(path))
    relax.analysis.well_formed(imported)
    image = _image(1, image_size)
    _assert_close(_run_relax(imported, image), _run_onnx(path, image))


@pytest.mark.parametrize("name", ["squeezenet", "inception_v3_small"])
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    weights = _constants(zoo.load(name, seed=7))
    resized = _constants(zoo.load(name, seed=7, batch=2, image_size=96))
    reseeded = _constants(zoo.load(name, seed=8))
    assert len(weights) == len(resized) == len(reseeded)
    assert all(map(np.array_equal, weights, resized))
    assert not any(map(np.array_equal, weights, reseeded))


def test_unknown_network_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="inception_v3, inception_v3_small, squeezenet"):
        zoo.load("squeeze_net")


def test_empty_batch_is_refused() -> None:
    with pytest.raises(ModelError, match="at least 1"):
        zoo.load("squeezenet", batch=0)


@pytest.mark.parametrize(("name", "smallest"), [("squeezenet", 29), ("inception_v3_small", 75)])
def test_smallest_image(name: str, smallest: int) -> None:
    zoo.load(name, image_size=smallest)
    with pytest.raises(ModelError, match="larger image_size"):
        zoo.load(name, image_size=smallest - 1)


def test_export_names_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"tvm-ios\[onnx\]"):
        zoo.export_onnx("squeezenet", tmp_path / "squeezenet.onnx")
