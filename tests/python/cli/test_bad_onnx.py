# SPDX-License-Identifier: Apache-2.0
"""ONNX files that cannot be read or converted: one sentence, and nothing half-written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.external_data_helper
import pytest

from support.bad_input import assert_refused, file_of, part_of
from support.cli import Compiled, save_branches

NODE = onnx.helper.make_node


def _unknown_operator(directory: Path) -> list[str]:
    save_branches(directory / "strange.onnx", head="NoSuchOperator")
    return ["compile", "strange.onnx", "-o", "m.so"]


def _dynamic(directory: Path) -> list[str]:
    save_branches(directory / "dynamic.onnx", batch="N")
    return ["bench", "dynamic.onnx"]


def _model(
    name: str,
    *nodes: onnx.NodeProto,
    shape: Sequence[int] = (1, 3, 8, 8),
    opset: int = 17,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Callable[[Path], list[str]]:
    """A network from "x" to "y", with weights "w" for five channels."""

    def write(directory: Path) -> list[str]:
        value = onnx.helper.make_tensor_value_info
        weight = onnx.numpy_helper.from_array(np.ones((8, 5, 3, 3), "float32"), "w")
        x = value("x", onnx.TensorProto.FLOAT, shape)
        y = value("y", onnx.TensorProto.FLOAT, None)
        others = [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
        graph = onnx.helper.make_graph(nodes, "g", [x], [y], [weight, *others])
        opsets = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.save(model, directory / name)
        return ["compile", name, "-o", "m.so", "--no-search"]

    return write


def _without_external_data(directory: Path) -> list[str]:
    model = onnx.load(directory / "model.onnx")
    settings = {"save_as_external_data": True, "size_threshold": 0}
    onnx.save(model, directory / "external.onnx", location="external.bin", **settings)
    (directory / "external.bin").unlink()
    return ["bench", "external.onnx"]


def _sparse(name: str, size: int) -> Callable[[Path], list[str]]:
    """A file of zeros, which takes no room."""

    def write(directory: Path) -> list[str]:
        with (directory / name).open("wb") as file:
            file.truncate(size)
        return ["bench", name]

    return write


def _external_data(location: str) -> Callable[[Path], list[str]]:
    """A model whose weights are said to be in a file, which is too short."""

    def write(directory: Path) -> list[str]:
        (directory / "short.bin").write_bytes(bytes(16))
        weight = onnx.TensorProto(name="w", dims=[8, 3, 3, 3], data_type=onnx.TensorProto.FLOAT)
        weight.raw_data = b""
        onnx.external_data_helper.set_external_data(weight, location, offset=8, length=864)
        value = onnx.helper.make_tensor_value_info
        x, y = value("x", 1, [1, 3, 8, 8]), value("y", 1, None)
        graph = onnx.helper.make_graph([NODE("Conv", ["x", "w"], ["y"])], "g", [x], [y], [weight])
        model = onnx.helper.make_model(graph, ir_version=8)
        (directory / "data.onnx").write_bytes(model.SerializeToString())
        return ["bench", "data.onnx"]

    return write


BAD_MODELS = {
    "unknown operator": (
        _unknown_operator, "strange.onnx has operators that are not supported: NoSuchOperator; "
    ),
    "dynamic dimension": (_dynamic, "open: N of image; fix them with --dim N=1"),
    "empty model": (file_of("e.onnx", b"", "bench", "e.onnx"), "empty"),
    "corrupt model": (file_of("c.onnx", b"\x80corrupt", "bench", "c.onnx"), "damaged"),
    "a model cut off": (
        part_of("model.onnx", slice(3000), "bench", "cut.onnx"), "cut.onnx is damaged"
    ),
    "no external data": (_without_external_data, "external.bin"),
    "a cycle": (
        _model("c.onnx", NODE("Add", ["x", "y"], ["a"]), NODE("Relu", ["a"], ["y"])),
        "Nothing computes 'y', which the model reads",
    ),
    "an unknown tensor": (
        _model("u.onnx", NODE("Relu", ["z"], ["y"])), "Nothing computes 'z', which"
    ),
    "weights of another shape": (
        _model("w.onnx", NODE("Conv", ["x", "w"], ["y"])), "Conv cannot be converted: The channel"
    ),
    "weights of another rank": (
        _model("r.onnx", NODE("MatMul", ["x", "w"], ["y"])), "MatMul cannot be converted: "
    ),
    "no kernel": (
        _model("k.onnx", NODE("MaxPool", ["x"], ["y"])), "MaxPool needs the attribute kernel_shape"
    ),
    "no stride": (
        _model("s.onnx", NODE("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[0, 0])),
        "MaxPool has strides=[0, 0] for 2 axes",
    ),
    "a tensor for no machine": (
        _model("h.onnx", NODE("Relu", ["x"], ["y"]), shape=[1 << 40, 1 << 40]),
        "Input 'x' is [1099511627776, 1099511627776], which no machine can hold",
    ),
    "operators without a converter": (
        _model("o.onnx", NODE("ImageDecoder", ["x"], ["a"]), NODE("NoSuch", ["a"], ["y"])),
        "o.onnx has operators that are not supported: ImageDecoder, NoSuch; export",
    ),
    "operators of another domain": (
        _model("f.onnx", NODE("Gelu", ["x"], ["y"], domain="com.example")), "com.example.Gelu"
    ),
    "a type that TVM does not compute in": (
        _model("t.onnx", NODE("Cast", ["x"], ["y"], to=onnx.TensorProto.STRING)),
        "of type string",
    ),
    "a shape that is computed from values": (
        _model(
            "v.onnx",
            NODE("Cast", ["x"], ["a"], to=onnx.TensorProto.INT64),
            NODE("Reshape", ["a", "minus"], ["b"]),
            NODE("Expand", ["x", "b"], ["y"]),
            constants={"minus": np.array([-1])},
        ),
        "Expand computes its shape from the input 'x' while it runs",
    ),
    "an opset of the future": (_model("n.onnx", NODE("Relu", ["x"], ["y"]), opset=99), "opset 99"),
    "a model of more than 2 GB": (_sparse("huge.onnx", 1 << 31), "as external data"),
    "external data elsewhere": (_external_data("../data"), "in the directory of the model"),
    "external data that are cut off": (_external_data("short.bin"), "damaged external data"),
    "a name with control characters": (
        _model("e.onnx", NODE("Relu", ["a\n\x1b[31m"], ["y"])), "31m"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_model(compiled: Compiled, case: str, monkeypatch, capfd) -> None:
    monkeypatch.chdir(compiled.directory)
    assert_refused(*BAD_MODELS[case], compiled, capfd)
