# SPDX-License-Identifier: Apache-2.0
"""8-bit floats, and numbers of 4 and 2 bits: what they hold, how they are cast and quantised."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tvm_ios
import tvm_ios_runtime
from tvm_ios.errors import ModelError

FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
POWERS, QUARTER = "float8_e8m0fnu", "float4_e2m1fn"
INTEGERS = ("int4", "uint4", "int2", "uint2")
NARROW = (*FLOATS, POWERS, QUARTER, *INTEGERS)
PLAIN = ("float32", "float16", "bfloat16", "bool", "int8", "uint8", "int32", "int64")
SPECIAL = [0, -0.0, np.nan, np.inf, -np.inf, 448, 464, 465, -480, 0.5, -0.5, 2.5, 1e-9, -7.5, 61440]


def code(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    outputs: dict[str, str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 25,
) -> onnx.ModelProto:
    """Return a model whose outputs are of given types."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, code(a.dtype.name), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(name, code(d), None) for name, d in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset < 23 else 13
    )


def compiled(model: onnx.ModelProto, folder: Path) -> tvm_ios.CompiledModel:
    onnx.save(model, folder / "m.onnx")
    return tvm_ios.compile(folder / "m.onnx", search=False, threads=1)


def check_equal(results: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for result, right in zip(results, wanted, strict=True):
        assert result.dtype == right.dtype
        np.testing.assert_array_equal(result.astype("float64"), right.astype("float64"))


def several(result: np.ndarray | Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return result if isinstance(result, tuple | list) else [result]


def numbers(dtype: str) -> np.ndarray:
    """Return random numbers of a type, and those at which conversions differ."""
    random = np.random.default_rng(0)
    if dtype in NARROW:
        return random.permutation(np.arange(256, dtype="uint8")).view(getattr(ml_dtypes, dtype))
    if dtype == "bool" or dtype.endswith(("int8", "int32", "int64")):
        return random.integers(0 if dtype == "bool" else -128, 128, 91).astype(dtype)
    magnitudes = np.exp(random.uniform(-20, 12, 91))
    with np.errstate(over="ignore"):
        return np.concatenate([SPECIAL, random.standard_normal(91) * magnitudes]).astype(dtype)


@pytest.mark.parametrize("source", [*NARROW, *PLAIN])
def test_casts_are_those_of_the_reference(source: str, tmp_path: Path) -> None:
    x = numbers(source)
    targets = [*NARROW, *PLAIN] if source in NARROW else [*NARROW]
    targets.remove(POWERS)  # in which ONNX leaves 0 and negative numbers open; see below
    if source == POWERS:
        x = x[np.argsort(x.view("uint8"))][100:150]  # integers of 32 bits hold them
    wanted = {f"{dtype}{s}": (dtype, s) for dtype, s in itertools.product(targets, (1, 0))}
    nodes = [
        helper.make_node("Cast", ["x"], [name], to=code(dtype), saturate=saturate)
        for name, (dtype, saturate) in wanted.items()
    ]
    model = model_of(nodes, {"x": x}, {name: dtype for name, (dtype, _) in wanted.items()})
    results = compiled(model, tmp_path)(x)
    whole = x.astype("float32") if source in NARROW else x
    with np.errstate(all="ignore"):
        for result, (dtype, saturate) in zip(results, wanted.values(), strict=True):
            right = reference_cast(whole, dtype, bool(saturate))
            given = np.isfinite(whole.astype("float64"))
            if dtype in (*INTEGERS, "int8", "uint8", "int32", "int64"):
                result, right = result[given], right[given]  # what is left open is 0 here
            if source == dtype:
                result, right = result[given], right[given]  # nothing is converted
            check_equal([result], [right])


def reference_cast(x: np.ndarray, dtype: str, saturate: bool) -> np.ndarray:
    node = helper.make_node("Cast", ["x"], ["y"], to=code(dtype), saturate=int(saturate))
    return ReferenceEvaluator(model_of([node], {"x": x}, {"y": dtype})).run(None, {"x": x})[0]


@pytest.mark.parametrize(
    ("rounding", "saturate"), [("up", 1), ("nearest", 0), ("down", 1), ("down", 0)]
)
def test_powers_of_two_are_those_of_onnx_runtime(
    rounding: str, saturate: int, tmp_path: Path
) -> None:
    x = numbers("float32")
    x = np.concatenate([x, np.float32([1.5, 1.25, 3, 5e-39, 7e-39, 9e-39, 2.0**127, 3e38])])
    cast = helper.make_node(
        "Cast", ["x"], ["y"], to=code(POWERS), round_mode=rounding, saturate=saturate
    )
    back = helper.make_node("Cast", ["y"], ["z"], to=code("float32"))
    model = model_of([cast, back], {"x": x}, {"z": "float32"})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    check_equal([compiled(model, tmp_path)(x)], session.run(None, {"x": x}))


@pytest.mark.parametrize(
    ("dtype", "scales"),
    [(FLOATS[0], "tensor"), (FLOATS[1], "axis"), (FLOATS[2], "blocks"), (QUARTER, "blocks"),
     ("int4", "tensor"), ("uint4", "axis"), ("int4", "blocks"), ("int2", "axis"),
     ("uint2", "blocks")],
)  # fmt: skip
def test_numbers_are_quantised(dtype: str, scales: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    x = (random.standard_normal((3, 7, 5)) * 6).astype("float32")
    x.flat[:4] = [0.5, -1.5, 1e5, -1e5]
    shape = {"tensor": (), "axis": (7,), "blocks": (3, 3, 5)}[scales]
    scale = np.asarray(random.uniform(0.1, 2, shape), "float32")
    least = 1 if dtype in INTEGERS else 0
    zero = np.full(shape, least, "float32").astype(getattr(ml_dtypes, dtype))
    place = {"axis": 1, **({"block_size": 3} if scales == "blocks" else {})}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], **place),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], **place),
    ]
    outputs = {"q": dtype, "y": "float32"}
    model = model_of(nodes, {"x": x}, outputs, {"scale": scale, "zero": zero})
    check_equal(compiled(model, tmp_path)(x), ReferenceEvaluator(model).run(None, {"x": x}))


@pytest.mark.parametrize("dtype", [FLOATS[0], FLOATS[3], "int4", "uint4"])
def test_narrow_weights_are_those_of_onnx_runtime(dtype: str, tmp_path: Path) -> None:
    """A product with weights in blocks, as models have them."""
    random = np.random.default_rng(2)
    x = random.standard_normal((3, 11)).astype("float32")
    weights = {
        "w": (random.standard_normal((11, 6)) * 3).astype(getattr(ml_dtypes, dtype)),
        "scale": random.uniform(0.1, 2, (3, 6)).astype("float32"),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["r"], axis=0, block_size=4),
        helper.make_node("MatMul", ["x", "r"], ["y"]),
    ]
    model = model_of(nodes, {"x": x}, {"y": "float32"}, weights, opset=21)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (right,) = session.run(None, {"x": x})
    np.testing.assert_allclose(compiled(model, tmp_path)(x), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [FLOATS[0], QUARTER, POWERS, "int4", "uint2"])
def test_elements_are_moved(dtype: str, tmp_path: Path) -> None:
    x = numbers(dtype)[:24].reshape(2, 3, 4)
    shape = np.array([4, -1])
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[2, 0, 1]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("Unsqueeze", ["r", "axes"], ["u"]),
        helper.make_node("Flatten", ["u"], ["y"], axis=2),
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("CastLike", ["one", "x"], ["like"]),
        helper.make_node("ConstantOfShape", ["shape2"], ["full"],
                         value=numpy_helper.from_array(x.reshape(-1)[:1], "v")),
    ]  # fmt: skip
    outputs = {"y": dtype, "same": dtype, "sizes": "int64", "like": dtype, "full": dtype}
    weights = {"shape": shape, "axes": np.array([0]), "one": np.float32(1), "shape2": shape[:1]}
    results = compiled(model_of(nodes, {"x": x}, outputs, weights), tmp_path)(x)
    right = [
        x.transpose(2, 0, 1).reshape(4, 6),
        x,
        np.array([2, 3, 4]),
        np.asarray(1.0, "float32").astype(x.dtype),
        np.broadcast_to(x.reshape(-1)[0], 4),
    ]
    check_equal(results, right)


@pytest.mark.parametrize("dtype", FLOATS[1:3])
def test_rows_are_written_and_kinds_are_told(dtype: str, tmp_path: Path) -> None:
    x, update = numbers(dtype).reshape(2, 32, 4), numbers(dtype)[::-1][:16].reshape(2, 2, 4)
    nodes = [
        helper.make_node("TensorScatter", ["x", "update", "begins"], ["y"]),
        helper.make_node("IsNaN", ["x"], ["is_nan"]),
        helper.make_node("IsInf", ["x"], ["is_inf"], detect_positive=0),
    ]
    outputs = {"y": dtype, "is_nan": "bool", "is_inf": "bool"}
    given = {"x": x, "update": update}
    model = model_of(nodes, given, outputs, {"begins": np.array([3, 0])})
    written = x.copy()
    written[0, 3:5], written[1, :2] = update
    real = x.astype("float32")
    right = [written, np.isnan(real), np.isneginf(real)]
    check_equal(compiled(model, tmp_path)(x, update), right)


@pytest.mark.parametrize("shape", [(), (0, 3), (5,)])
def test_tensors_of_any_shape(shape: tuple[int, ...], tmp_path: Path) -> None:
    x = np.asarray(np.random.default_rng(0).standard_normal(shape), "float32")
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=code(FLOATS[0])),
        helper.make_node("Cast", ["q"], ["y"], to=code("float32")),
        helper.make_node("Cast", ["x"], ["i"], to=code("int4")),
    ]
    model = model_of(nodes, {"x": x}, {"q": FLOATS[0], "y": "float32", "i": "int4"})
    check_equal(compiled(model, tmp_path)(x), ReferenceEvaluator(model).run(None, {"x": x}))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("uint8", FLOATS[0]), (FLOATS[2], "int8"), (FLOATS[1], POWERS), ("int4", QUARTER),
     (QUARTER, "uint4"), ("uint2", "int2"), ("bool", FLOATS[3])],
)  # fmt: skip
def test_bits_are_kept(given: str, wanted: str, tmp_path: Path) -> None:
    x = numbers(given)
    mask = {"4": 0x0F, "2": 0x03}.get(given[-1] if given in INTEGERS else given[5:6], 0xFF)
    x = (x.view("uint8") & np.uint8(mask)).view(x.dtype)
    node = helper.make_node("BitCast", ["x"], ["y"], to=code(wanted))
    result = compiled(model_of([node], {"x": x}, {"y": wanted}, opset=26), tmp_path)(x)
    assert result.dtype.name == wanted
    assert ((result.view("uint8") & mask) == x.view("uint8")).all()


def test_a_library_takes_and_returns_narrow_arrays(tmp_path: Path) -> None:
    """Its metadata has the types, in which outputs may be written to given arrays."""
    x = numbers(FLOATS[0]).reshape(16, 16)
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    model = compiled(model_of([node], {"x": x}, {"y": FLOATS[0]}), tmp_path)
    model.save(tmp_path / "m.so")
    loaded = tvm_ios_runtime.load(tmp_path / "m.so")
    assert [info.dtype for info in (*loaded.inputs, *loaded.outputs)] == [FLOATS[0]] * 2
    check_equal(loaded(x), [x.T])
    check_equal(loaded(x[::-1, ::2].repeat(2, 1)), [x[::-1, ::2].repeat(2, 1).T])
    out = np.zeros((16, 16), ml_dtypes.float8_e4m3fn)
    loaded(x, out=[out])
    check_equal([out], [x.T])
    bound = loaded.bind([x])
    check_equal(bound(), [x.T])
    for wrong in (x.view("uint8"), x.view(ml_dtypes.float8_e5m2)):
        with pytest.raises(ValueError, match="takes x float8_e4m3fn"):
            loaded(wrong)


@pytest.mark.parametrize(
    ("operator", "attributes", "reason"),
    [
        ("Add", {}, "computes with tensors of type float8_e4m3fn, which is not supported"),
        ("Cast", {"to": 8}, "has tensors of type string"),
        ("Cast", {"to": 20, "round_mode": "odd"}, "rounds 'odd', which is neither"),
        ("BitCast", {"to": 22}, "reads float8_e4m3fn as int4, which is of another size"),
    ],
)
def test_what_is_refused(
    operator: str, attributes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    x = numbers(FLOATS[0])
    inputs = ["x", "x"] if operator == "Add" else ["x"]
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    with pytest.raises(ModelError, match=reason):
        compiled(model_of([node], {"x": x}, {"y": FLOATS[0]}, opset=26), tmp_path)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.INT4, dims=[3, 5], raw_data=b"\0\1")
    node = helper.make_node("Cast", ["w"], ["y"], to=code("float32"))
    model = model_of([node], {}, {"y": "float32"})
    model.graph.initializer.append(weight)
    with pytest.raises(ModelError, match="The constant 'w' is damaged"):
        compiled(model, tmp_path)


@pytest.mark.parametrize(
    ("sizes", "zero", "reason"),
    [
        ((2, 6), None, r"has \[2, 6\] scales or zero points for blocks"),
        ((3, 6), 2, "has a zero point other than 0"),
    ],
)
def test_wrong_scales_are_refused(
    sizes: tuple[int, int], zero: float | None, reason: str, tmp_path: Path
) -> None:
    weights = {"w": np.ones((11, 6), ml_dtypes.float8_e5m2), "s": np.ones(sizes, "float32")}
    if zero is not None:
        weights["z"] = np.full(sizes, zero, "float32").astype(ml_dtypes.float8_e5m2)
    node = helper.make_node("DequantizeLinear", list(weights), ["y"], axis=0, block_size=4)
    with pytest.raises(ModelError, match=reason):
        compiled(model_of([node], {}, {"y": "float32"}, weights), tmp_path)
