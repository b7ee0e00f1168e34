# SPDX-License-Identifier: Apache-2.0
"""Saved Relay: the samples, short modules around an expression, modules compared."""

from __future__ import annotations

import numpy as np

from support.paths import TESTS
from tvm_ios.relay import Module, ast, parse
from tvm_ios.relay.tensors import encode

SAMPLES = TESTS / "data" / "relay"
"""What TVM v0.19.0 wrote; the README there says how."""
NAMES = sorted(path.stem for path in SAMPLES.glob("*.relay"))
NAMES_IN_JSON = sorted(path.stem for path in SAMPLES.glob("*.json") if ".meta" not in path.name)

HEADER = '#[version = "0.0.5"]\n'
WEIGHTS = np.arange(6, dtype="float32").reshape(2, 3)
METADATA = f"""#[metadata]
{{"root": 1, "nodes": [
  {{"type_key": ""}},
  {{"type_key": "Map", "data": [2, 4, 5, 7, 10, 12, 14, 16], "keys": ["relay.Constant",
    "runtime.BoxInt", "relay.attrs.SoftmaxAttrs", "VirtualDevice", "tir.Any", "Array", "Target",
    "runtime.BoxBool"]}},
  {{"type_key": "Array", "data": [3]}},
  {{"type_key": "relay.Constant", "attrs": {{"data": "0", "span": "0"}}}},
  {{"type_key": "Array", "data": [6]}},
  {{"type_key": "Array", "data": [8]}},
  {{"type_key": "runtime.BoxInt", "repr_str": "-7"}},
  {{"type_key": "Array", "data": [9]}},
  {{"type_key": "relay.attrs.SoftmaxAttrs", "attrs": {{"axis": "1"}}}},
  {{"type_key": "VirtualDevice", "attrs": {{}}}},
  {{"type_key": "Array", "data": [11]}},
  {{"type_key": "tir.Any"}},
  {{"type_key": "Array", "data": [13]}},
  {{"type_key": "Array", "data": [6, 17]}},
  {{"type_key": "Array", "data": [15]}},
  {{"type_key": "Target"}},
  {{"type_key": "Array", "data": [17]}},
  {{"type_key": "runtime.BoxBool", "repr_str": "true"}}
], "b64ndarrays": ["{encode(WEIGHTS)}"]}}
"""
X = "%x: Tensor[(2, 3), float32]"


def main(body: str, params: str = X, metadata: str = "") -> str:
    """The text of a module with one function; ``body`` begins in line 3, column 3."""
    return f"{HEADER}def @main({params}) {{\n  {body}\n}}\n{metadata}"


def body_of(body: str, params: str = X, metadata: str = "") -> ast.Expr:
    """What a function returns, from text."""
    return parse(main(body, params, metadata)).functions["main"].body


def assert_same(first: Module, second: Module) -> None:
    """Modules are equal, their graphs too, but for the names of variables."""
    assert list(first.functions) == list(second.functions)
    for name, function in first.functions.items():
        _Comparison().run(function, second.functions[name])


class _Comparison:
    """Two graphs side by side, without recursion. What is one object in one is one in the other."""

    def __init__(self) -> None:
        self._pairs: dict[ast.Expr, ast.Expr] = {}
        self._other: dict[ast.Expr, ast.Expr] = {}

    def run(self, first: ast.Expr, second: ast.Expr) -> None:
        stack = [(first, second)]
        while stack:
            a, b = stack.pop()
            assert type(a) is type(b)
            if isinstance(a, ast.Constant):
                assert_equal_values(a.value, b.value)
            elif isinstance(a, ast.GlobalVar | ast.Operator):
                assert a.name == b.name
            elif a in self._pairs or b in self._other:
                assert self._pairs.get(a) is b
                assert self._other.get(b) is a
            else:
                self._pairs[a], self._other[b] = b, a
                stack += self._inside(a, b)

    def _inside(self, a: ast.Expr, b: ast.Expr) -> list[tuple[ast.Expr, ast.Expr]]:
        if isinstance(a, ast.Var):
            assert a.type == b.type
            return []
        if isinstance(a, ast.Call):
            assert_equal_attributes(a.attrs, b.attrs)
            assert a.type == b.type
            return _zip((a.callee, *a.args), (b.callee, *b.args))
        if isinstance(a, ast.Tuple):
            return _zip(a.fields, b.fields)
        if isinstance(a, ast.TupleGetItem):
            assert a.index == b.index
            return [(a.tuple_value, b.tuple_value)]
        if isinstance(a, ast.Let):
            return _zip((a.var, a.value, a.body), (b.var, b.value, b.body))
        if isinstance(a, ast.If):
            parts = (a.condition, a.then, a.otherwise)
            return _zip(parts, (b.condition, b.then, b.otherwise))
        assert_equal_attributes(a.attrs, b.attrs)
        assert a.result == b.result
        return _zip((*a.params, a.body), (*b.params, b.body))


def _zip(
    first: tuple[ast.Expr, ...], second: tuple[ast.Expr, ...]
) -> list[tuple[ast.Expr, ast.Expr]]:
    return list(zip(first, second, strict=True))


def assert_equal_attributes(first, second) -> None:
    assert list(first) == list(second)
    for name, value in first.items():
        assert_equal_values(value, second[name])


def assert_equal_values(first: object, second: object) -> None:
    """Values are equal, bit by bit where they are tensors, and of one type."""
    assert type(first) is type(second)
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        assert first.shape == second.shape
        assert first.tobytes() == second.tobytes()
    elif isinstance(first, tuple):
        for a, b in zip(first, second, strict=True):
            assert_equal_values(a, b)
    else:
        assert repr(first) == repr(second)  # NaN equals itself here
