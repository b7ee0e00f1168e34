# SPDX-License-Identifier: Apache-2.0
"""BitCast among other operators: the bits are those of the type that the model says."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by it)
import numpy as np
import onnx
import onnx.parser
import pytest

import tvm_ios
from tvm_ios.errors import ModelError

HEAD = '<ir_version: 13, opset_import: ["" : 26]>'
CODES = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
         "bool": 9, "float16": 10, "double": 11, "uint32": 12, "uint64": 13,
         "bfloat16": 16}  # fmt: skip
NAMES = {"float": "float32", "double": "float64"}


def _compile(text: str, path: Path) -> tvm_ios.CompiledModel:
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    return tvm_ios.compile(path, search=False, threads=1)


@pytest.mark.parametrize("shape", [(3, 17), (5,), ()])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("float", "int32"), ("float", "uint32"), ("uint32", "float"), ("double", "int64"),
        ("uint64", "double"), ("float16", "int16"), ("uint16", "float16"), ("bfloat16", "uint16"),
        ("int16", "bfloat16"), ("float16", "bfloat16"), ("int8", "uint8"), ("uint64", "int64"),
        ("bool", "int8"),
    ],
)  # fmt: skip
def test_bits_are_kept(given: str, wanted: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    sizes = f"[{','.join(map(str, shape))}]" if shape else ""
    text = f"""g ({given}{sizes} x) => ({wanted}{sizes} y)
      {{ y = BitCast <to = {CODES[wanted]}> (x) }}"""
    before, after = (np.dtype(NAMES.get(name, name)) for name in (given, wanted))
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (*shape, before.itemsize), "uint8").view(before).reshape(shape)
    if given == "bool":
        x = random.integers(0, 2, shape).astype(bool)
    result = np.asarray(_compile(text, tmp_path / "m.onnx")(x))
    assert result.dtype == after
    np.testing.assert_array_equal(_bytes(result), _bytes(x))


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(x).tobytes(), "uint8")


def test_between_other_operators(tmp_path: Path) -> None:
    """The magnitude of a number by its bits."""
    text = """g (float[4,33] x) => (float[4,33] y) <int32 mask = {2147483647}> {
      a = Mul (x, x)
      b = Sub (a, x)
      bits = BitCast <to = 6> (b)
      kept = BitwiseAnd (bits, mask)
      c = BitCast <to = 1> (kept)
      y = Sqrt (c)
    }"""
    x = np.random.default_rng(0).standard_normal((4, 33)).astype("float32")
    result = _compile(text, tmp_path / "m.onnx")(x)
    np.testing.assert_allclose(result, np.sqrt(np.abs(x * x - x)), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 7), ()])
def test_of_a_sum_of_16_bits(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """It is computed in float32, but its bits are those of 16."""
    sizes = f"[{','.join(map(str, shape))}]" if shape else ""
    text = f"""g ({dtype}{sizes} x, {dtype}{sizes} z) => (int16{sizes} y) {{
      sum = Add (x, z)
      bits = BitCast <to = 5> (sum)
      y = BitwiseNot (bits)
    }}"""
    x, z = (np.random.default_rng(i).standard_normal(shape).astype(dtype) for i in range(2))
    wanted = ~np.asarray(x + z).view("int16")
    np.testing.assert_array_equal(_compile(text, tmp_path / "m.onnx")(x, z), wanted)


def test_of_a_constant(tmp_path: Path) -> None:
    text = """g (float[2] x) => (float[2] y) <int32[2] one = {1065353216, -1082130432}> {
      ones = BitCast <to = 1> (one)
      y = Mul (x, ones)
    }"""
    x = np.array([3, 4], "float32")
    np.testing.assert_array_equal(_compile(text, tmp_path / "m.onnx")(x), [3, -4])


@pytest.mark.parametrize(
    ("given", "code", "reason"),
    [("float", 7, "reads float32 as int64, which is of another size"), ("uint8", 9, "as truths")],
)
def test_what_is_refused(given: str, code: int, reason: str, tmp_path: Path) -> None:
    text = f"g ({given}[2] x) => (int64[2] y) {{ y = BitCast <to = {code}> (x) }}"
    with pytest.raises(ModelError, match=reason):
        _compile(text, tmp_path / "m.onnx")
