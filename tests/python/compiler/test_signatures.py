# SPDX-License-Identifier: Apache-2.0
"""Libraries of several shapes: what each call computes, and which shapes are served."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import tvm_ios
import tvm_ios_runtime
from support.cli import assert_one_sentence, reference, relative_error, save_branches
from tvm_ios.backend.registry import kind_of
from tvm_ios.cli.main import main
from tvm_ios.compiler.signatures import check_kind
from tvm_ios.errors import ModelError, OptionError

_RANDOM = np.random.default_rng(7)


def images(batch: int, size: int = 24) -> np.ndarray:
    return _RANDOM.standard_normal((batch, 3, size, size)).astype("float32")


def compiled(path: Path, **sizes: Any) -> tvm_ios.CompiledModel:
    """Compile a network for some sizes alone, as one that cannot be compiled for any sizes."""
    with mock.patch.object(tvm_ios.api, "with_any_shape", lambda networks, _: networks):
        return tvm_ios.compile(path, search=False, threads=2, **sizes)


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose batch is open, and a library of it for three batch sizes."""
    folder = tmp_path_factory.mktemp("branches")
    save_branches(folder / "m.onnx", batch="N")
    compiled(folder / "m.onnx", batch_sizes=[1, 3, 4]).save(folder / "m.so")
    return folder


def encoder(path: Path, *, masked: bool = True) -> None:
    """Write attention of tokens to each other, which do not attend to those that are masked."""
    table = numpy_helper.from_array(_RANDOM.standard_normal((50, 16)).astype("float32"), "table")
    constants = [
        numpy_helper.from_array(np.array(value, dtype), name)
        for name, value, dtype in (
            ("scale", 0.25, "float32"),
            ("one", 1, "float32"),
            ("low", -1e4, "float32"),
            ("axis", [1], "int64"),
        )
    ]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "xt"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Sub", ["one", "mask"], ["absent"]),
        helper.make_node("Mul", ["absent", "low"], ["penalty"]),
        helper.make_node("Unsqueeze", ["penalty", "axis"], ["bias"]),
        helper.make_node("Add", ["scores", "bias"], ["kept"]),
        helper.make_node("Softmax", ["kept" if masked else "scores"], ["weights"], axis=2),
        helper.make_node("MatMul", ["weights", "x"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", "L"]),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["N", "L"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "L", 16])]
    save(path, nodes, inputs, outputs, [table, *constants])


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
) -> None:
    graph = helper.make_graph(nodes, "network", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)


def tokens(batch: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    ids = _RANDOM.integers(0, 50, (batch, length))
    return ids, (_RANDOM.random((batch, length)) < 0.8).astype("float32")


def test_each_batch_runs_its_own_function(branches: Path) -> None:
    model = tvm_ios.load(branches / "m.so")
    assert [s.function for s in model.schedules] == ["main"] * 3
    assert model.inputs[0].shape == (None, 3, 24, 24)
    for batch in (1, 3, 4):
        image = images(batch)
        assert relative_error(model(image), reference(branches / "m.onnx", image)) < 1e-5


@pytest.mark.parametrize("batch", [2, 5, 6, 7, 8, 23])
def test_another_batch_is_split_and_padded(branches: Path, batch: int) -> None:
    model = tvm_ios_runtime.load(branches / "m.so")
    image = images(batch)
    (computed,) = model(image)
    assert computed.shape[0] == batch
    assert relative_error(computed, reference(branches / "m.onnx", image)) < 1e-5


@pytest.fixture(scope="module")
def opened(branches: Path) -> Path:
    """A library of the same network that was compiled without a word on its batch."""
    path = branches / "open.so"
    assert main(["compile", str(branches / "m.onnx"), "-o", str(path), "--no-search"]) == 0
    return path


@pytest.mark.parametrize("batch", [1, 2, 4, 7])
def test_an_open_batch_is_served(branches: Path, opened: Path, batch: int) -> None:
    model, image = tvm_ios_runtime.load(opened), images(batch)
    assert model.any_batch
    assert relative_error(model(image)[0], reference(branches / "m.onnx", image)) < 1e-5


def test_an_open_batch_in_python(branches: Path) -> None:
    model = tvm_ios.compile(branches / "m.onnx", search=False, threads=2)
    image = images(3)
    assert relative_error(model(image), reference(branches / "m.onnx", image)) < 1e-5


@pytest.mark.parametrize(
    ("sizes", "node"),
    [
        (["N", 5], helper.make_node("Softmax", ["x"], ["y"], axis=0)),
        ([4, "M"], helper.make_node("Relu", ["x"], ["y"])),
    ],
    ids=["rows that depend on each other", "another dimension"],
)
def test_what_is_no_batch(sizes: list[str | int], node: onnx.NodeProto, tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in "xy")
    save(tmp_path / "m.onnx", [node], [x], [y])
    tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1).save(tmp_path / "m.so")
    model = tvm_ios_runtime.load(tmp_path / "m.so")
    assert not model.any_batch
    values = images(1)[0, 0, :4, :5]
    assert relative_error(model(values)[0], reference(tmp_path / "m.onnx", values)) < 1e-5


def test_main_takes_every_shape_without_our_runtime(branches: Path) -> None:
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(branches / "m.so")), tvm.cpu())
    for batch in (4, 1, 3):
        image = images(batch)
        computed = vm["main"](tvm.runtime.tensor(image)).numpy()
        assert relative_error(computed, reference(branches / "m.onnx", image)) < 1e-5
    with pytest.raises(RuntimeError, match=r"inputs of the shapes \[1, 3, 24, 24\] or \[3, 3"):
        vm["main"](tvm.runtime.tensor(images(2)))


def test_weights_are_there_once(tmp_path: Path) -> None:
    weights = _RANDOM.standard_normal((512, 1024)).astype("float32")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])
        for name, size in (("x", 512), ("y", 1024))
    )
    save(tmp_path / "m.onnx", [node], [x], [y], [numpy_helper.from_array(weights, "w")])
    model = compiled(tmp_path / "m.onnx", batch_sizes=[1, 4, 64])
    model.save(tmp_path / "m.so")
    assert weights.nbytes < (tmp_path / "m.so").stat().st_size < 1.5 * weights.nbytes


@pytest.mark.parametrize(
    "array", [images(2, 23), images(2).astype("float64"), images(2)[0], images(0)]
)
def test_what_cannot_be_served_gets_a_sentence(branches: Path, array: np.ndarray) -> None:
    model = tvm_ios_runtime.load(branches / "m.so")
    with pytest.raises(ValueError, match=r"\[4, 3, 24, 24\], or any other batch; got float"):
        model(array)


def save_rows(path: Path, nodes: list[onnx.NodeProto], **constants: np.ndarray) -> None:
    """Write a network from ``x`` to ``y``, rows of five numbers."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 5]) for n in "xy")
    save(path, nodes, [x], [y], [numpy_helper.from_array(a, n) for n, a in constants.items()])


@pytest.mark.parametrize("share", [1.0, 1e-6])
def test_a_network_that_mixes_rows_serves_only_its_own_batches(
    tmp_path: Path, share: float
) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Mul", ["mean", "share"], ["part"]),
        helper.make_node("Sub", ["x", "part"], ["y"]),
    ]
    save_rows(tmp_path / "m.onnx", nodes, share=np.array(share, "float32"))
    model = compiled(tmp_path / "m.onnx", batch_sizes=[2, 4])
    array = _RANDOM.standard_normal((4, 5)).astype("float32")
    np.testing.assert_allclose(model(array), array - share * array.mean(0), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"x float32\[4, 5\]; got float32\[3, 5\]"):
        model(array[:3])


def test_rows_that_meet_where_random_numbers_do_not_show_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["mean", "three"], ["above"]),
        helper.make_node("Relu", ["above"], ["rest"]),
        helper.make_node("Add", ["x", "rest"], ["y"]),
    ]
    save_rows(tmp_path / "m.onnx", nodes, three=np.array(3.0, "float32"))
    model = compiled(tmp_path / "m.onnx", batch_sizes=[2, 4])
    array = np.full((4, 5), 5.0, "float32")
    np.testing.assert_allclose(model(array), array + 2.0)
    with pytest.raises(ValueError, match="got"):
        model(array[:3])


def test_a_network_that_counts_rows_serves_only_its_own_batches(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("CumSum", ["ones", "axis"], ["numbers"]),
        helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
        helper.make_node("Slice", ["numbers", "zero", "rows"], ["first"]),
        helper.make_node("Add", ["x", "first"], ["y"]),
    ]
    constants = {"ones": np.ones((9, 1), "float32"), "axis": np.array(0), "zero": np.array([0])}
    save_rows(tmp_path / "m.onnx", nodes, **constants)
    model = compiled(tmp_path / "m.onnx", batch_sizes=[2, 4])
    array = _RANDOM.standard_normal((4, 5)).astype("float32")
    np.testing.assert_allclose(model(array), array + np.arange(1, 5)[:, None], rtol=1e-5)
    with pytest.raises(ValueError, match="got"):
        model(array[:3])


def test_lengths_and_batches(tmp_path: Path) -> None:
    """Masked tokens are like absent ones, so that other lengths are padded, too."""
    encoder(tmp_path / "m.onnx")
    sizes = [(1, 8), (4, 8), (1, 32)]
    model = compiled(tmp_path / "m.onnx", shapes={"ids": sizes, "mask": sizes})
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for batch, length in [*sizes, (3, 8), (7, 5), (2, 20), (5, 31)]:
        ids, mask = tokens(batch, length)
        (expected,) = session.run(None, {"ids": ids, "mask": mask})
        computed = model(ids, mask)
        assert computed.shape == expected.shape
        assert relative_error(computed, expected) < 1e-5
    with pytest.raises(ValueError, match="or fewer than 32 in dimension 1 of ids"):
        model(*tokens(1, 33))
    ids, mask = tokens(4, 8)
    with pytest.raises(ValueError, match="got"):
        model(ids, mask[:3])
    for batch, length in sizes:
        ids, mask = tokens(batch, length)
        ids[-1, -1] = 50
        with pytest.raises(IndexError, match="must be from -50 to 49, got 50"):
            model(ids, mask)


def test_lengths_are_not_padded_where_padding_is_attended_to(tmp_path: Path) -> None:
    encoder(tmp_path / "m.onnx", masked=False)
    sizes = [(1, 8), (1, 16)]
    model = compiled(tmp_path / "m.onnx", shapes={"ids": sizes, "mask": sizes})
    with pytest.raises(ValueError, match="got"):
        model(*tokens(1, 12))


def test_padding_that_few_tokens_would_hide(tmp_path: Path) -> None:
    """The mean of all tokens depends on their number, but not that of the first two tokens."""
    table = np.ones((50, 16), "float32")
    table[:2] = 0.0
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", "L"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16])
    save(tmp_path / "m.onnx", nodes, [ids], [y], [numpy_helper.from_array(table, "table")])
    shapes = {"ids": [(1, 8), (1, 16)]}
    model = compiled(tmp_path / "m.onnx", shapes=shapes)
    with pytest.raises(ValueError, match="got"):
        model(np.full((1, 12), 7))


def test_named_shapes_and_any_other(tmp_path: Path) -> None:
    encoder(tmp_path / "m.onnx")
    sizes = [(1, 8), (2, 16)]
    shapes = {"ids": sizes, "mask": sizes}
    model = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=2, shapes=shapes)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for batch, length in [*sizes, (3, 8), (7, 5), (1, 33)]:
        ids, mask = tokens(batch, length)
        (expected,) = session.run(None, {"ids": ids, "mask": mask})
        assert relative_error(model(ids, mask), expected) < 1e-5
    model.save(tmp_path / "m.so")
    taken = [
        [i.shape for i in s.inputs] for s in tvm_ios_runtime.load(tmp_path / "m.so").signatures
    ]
    assert taken == [[(1, 8)] * 2, [(2, 16)] * 2, [(None, None)] * 2]


def test_batches_of_an_image_of_any_size(tmp_path: Path) -> None:
    """What is open besides has the size that is assumed, in the functions of the batches."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3, "H", "W"]) for n in "xy")
    save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [y])
    flags = ["--batch-sizes", "1,4", "--one-library", "--no-search"]
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.so"), *flags]) == 0
    model = tvm_ios_runtime.load(tmp_path / "m.so")
    batches = [signature.inputs[0].shape[0] for signature in model.signatures]
    assert batches == [1, 4, None]
    for array in (images(1, 224), images(4, 224), images(3, 9)):
        np.testing.assert_array_equal(model(array)[0], np.maximum(array, 0.0))


def test_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_branches(tmp_path / "m.onnx", batch="N")
    files = ["-o", "m.so", "--schedule-out", "s.json"]
    flags = ["--batch-sizes", "1,4", "--one-library", "--no-search", "--no-database"]
    assert main(["compile", "m.onnx", *files, *flags, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    sizes = ["batch 1", "batch 4", "image [N, 3, 24, 24]"]
    assert [its["size"] for its in printed["signatures"]] == sizes
    assert printed["splits"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "m.onnx", "m.so", "s.b1.json", "s.b4.json",
    }  # fmt: skip
    np.savez("in.npz", image=images(6))
    assert main(["run", "m.so", "-i", "in.npz", "-o", "out.npz"]) == 0
    with np.load("out.npz") as outputs, np.load("in.npz") as inputs:
        expected = reference(tmp_path / "m.onnx", inputs["image"])
        assert relative_error(outputs["output_0"], expected) < 1e-5
    np.savez("in.npz", image=images(2, 25))
    capsys.readouterr()
    assert main(["run", "m.so", "-i", "in.npz"]) != 0
    assert_one_sentence(capsys.readouterr(), "image float32[N, 3, 24, 24]; got")
    assert main(["run", "m.so", "--print-time", "--repeat", "2"]) == 0


def test_searched_shapes_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    encoder(tmp_path / "m.onnx")
    shapes = [f"ids:[1,{length}],mask:[1,{length}]" for length in (8, 16)]
    flags = [word for text in shapes for word in ("--shapes", text)]
    # Two workers that wait for each other would take a minute beside other tests.
    flags += ["--threads", "1", "--no-database"]
    assert main(["compile", "m.onnx", "-o", "m.so", *flags]) == 0
    capsys.readouterr()
    assert main(["show", "m.so", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["titles"] == [
        "ids int64[1, 8], mask float32[1, 8]",
        "ids int64[1, 16], mask float32[1, 16]",
        "ids int64[N, L], mask float32[N, L]",
    ]
    model = tvm_ios.load("m.so")
    session = onnxruntime.InferenceSession("m.onnx")
    ids, mask = tokens(1, 11)
    (expected,) = session.run(None, {"ids": ids, "mask": mask})
    assert relative_error(model(ids, mask), expected) < 1e-5


def test_other_shapes_are_told_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a network that cannot be compiled for any sizes."""
    encoder(tmp_path / "m.onnx")
    flags = ["--shapes", "ids:[1,8],mask:[1,8]", "--shapes", "ids:[1,16],mask:[1,16]"]
    paths = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.so")]
    alone = mock.patch("tvm_ios.cli.compile.with_any_shape", lambda networks, _: networks)
    with alone:
        assert main(["compile", *paths, *flags, "--no-search"]) == 0
    assert "a smaller size is padded to a larger one" in capsys.readouterr().out


def test_one_named_shape_and_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder(tmp_path / "m.onnx")
    paths = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.so")]
    assert main(["compile", *paths, "--shapes", "ids:[1,8],mask:[1,8]", "--no-search"]) == 0
    capsys.readouterr()
    assert main(["show", str(tmp_path / "m.so")]) == 0
    printed = capsys.readouterr().out
    assert "ids int64[1, 8]" in printed
    assert "ids int64[N, L]" in printed
    assert main(["show", str(tmp_path / "m.so"), "--format", "dot"]) != 0
    assert_one_sentence(capsys.readouterr(), "draws one schedule")
    model = tvm_ios.load(tmp_path / "m.so")
    assert model(*tokens(2, 5)).shape == (2, 5, 16)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--one-library"], "give --batch-sizes"),
        (["--batch-sizes", "1,2", "--shapes", "x:[1]"], "--batch-sizes and --shapes exclude"),
        (["--shapes", "x:[1]", "--shapes", "x:[2]", "--batch", "1"], "--shapes and --batch"),
    ],
)
def test_arguments_at_odds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    library = tmp_path / "m.so"
    assert main(["compile", "zoo:squeezenet", "-o", str(library), *flags]) != 0
    assert_one_sentence(capsys.readouterr(), words)
    assert not library.exists()


def test_shapes_that_python_refuses(tmp_path: Path) -> None:
    save_branches(tmp_path / "m.onnx", batch="N")
    path, two = tmp_path / "m.onnx", [(1, 3, 24, 24), (2, 3, 24, 24)]
    with pytest.raises(OptionError, match="shapes and batch_sizes exclude each other"):
        tvm_ios.compile(path, search=False, shapes={"image": two}, batch_sizes=[1, 2])
    with pytest.raises(OptionError, match="as many of them as the others"):
        tvm_ios.compile(path, search=False, shapes={"image": two, "other": two[:1]})
    with pytest.raises(ModelError, match="has no input 'img'"):
        tvm_ios.compile(path, search=False, shapes={"img": two})
    with pytest.raises(OptionError, match="must be a list of shapes"):
        tvm_ios.compile(path, search=False, shapes={"image": two[0]})
    with pytest.raises(OptionError, match="Two of the shapes are the same"):
        tvm_ios.compile(path, search=False, batch_sizes=[2, 2])


def test_shapes_of_different_ranks_are_refused(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [y])
    with pytest.raises(ModelError, match="the same number of dimensions in all shapes"):
        tvm_ios.compile(tmp_path / "m.onnx", search=False, shapes={"x": [(2,), (2, 3)]})


def test_a_gpu_has_one_shape() -> None:
    with pytest.raises(OptionError, match="is for CPUs"):
        check_kind(kind_of("cuda"))
