# SPDX-License-Identifier: Apache-2.0
"""Random Relay: modules that are well-formed, whatever their operators mean, and damaged texts."""

from __future__ import annotations

import random
import re

import numpy as np

from tvm_ios.relay import Module, ast

DTYPES = ("float32", "float16", "float64", "int32", "int64", "int8", "uint8", "bool", "bfloat16")
NAMES = ("x", "x", "data", "a.b", "a.0", "scope/bn", "_t", "w1", "é", "")
STRINGS = ("", "NCHW", 'a"b\\', "tab\tline\n", "naïve", "// /* */ #[metadata]", "%0 = 1;")


def random_module(seed: int, size: int = 25, plain: bool = False) -> Module:
    """A module of up to four functions, each of which calls those before it.

    Parameters
    ----------
    seed : int
    size : int
        How many parts a function has at most, besides those of its parts.
    plain : bool
        Whether operators have only attributes that `json_document` knows.
    """
    return _Generator(random.Random(seed), plain).module(size)


class _Generator:
    def __init__(self, source: random.Random, plain: bool) -> None:
        self._random = source
        self._plain = plain
        self._functions: dict[str, ast.Function] = {}
        self._tensors = [ast.Constant(self._array()) for _ in range(3)]

    def module(self, size: int) -> Module:
        for i in range(self._random.randint(1, 4)):
            self._functions[f"f{i}"] = self._function([], self._random.randint(1, size))
        return Module(self._functions)

    def _function(self, seen: list[ast.Expr], size: int) -> ast.Function:
        params = tuple(self._var() for _ in range(self._random.randint(0, 3)))
        attrs = {}
        if self._random.random() < 0.3:
            attrs = {"Primitive": 1, "Compiler": self._random.choice(STRINGS)}
        body = self._scope([*seen, *params], size)
        return ast.Function(params, body, self._maybe_type(), attrs)

    def _scope(self, seen: list[ast.Expr], size: int) -> ast.Expr:
        """An expression of some parts, which may use ``seen`` and one another."""
        lets: list[tuple[ast.Var, ast.Expr]] = []
        seen = list(seen)
        for _ in range(size):
            value = self._expr(seen, size)
            if self._random.random() < 0.2:
                lets.append((self._var(), value))
                seen.append(lets[-1][0])
            else:
                seen.append(value)
        body = self._pick(seen)
        for var, value in reversed(lets):
            body = ast.Let(var, value, body)
        return body

    def _expr(self, seen: list[ast.Expr], size: int) -> ast.Expr:
        kind = self._random.choices(
            ["call", "tuple", "projection", "if", "function", "global", "scope"],
            [10, 2, 2, 1, 1, 1, 1],
        )[0]
        inner = self._random.randint(0, size // 2)
        if kind == "tuple":
            return ast.Tuple(self._several(seen))
        if kind == "projection":
            return ast.TupleGetItem(self._pick(seen), self._random.randint(0, 12))
        if kind == "if":
            then, otherwise = (self._scope(seen, inner) for _ in range(2))
            return ast.If(self._pick(seen), then, otherwise)
        if kind == "function":
            function = self._function(seen, inner)
            return ast.Call(function, self._several(seen)) if inner % 2 else function
        if kind == "global" and self._functions:
            name = self._random.choice(list(self._functions))
            return ast.Call(ast.GlobalVar(name), self._several(seen), {}, self._maybe_type())
        if kind == "scope":
            return self._scope(seen, inner)
        name, attrs = self._operator()
        return ast.Call(ast.Operator(name), self._several(seen), attrs, self._maybe_type())

    def _pick(self, seen: list[ast.Expr]) -> ast.Expr:
        if not seen or self._random.random() < 0.15:
            return self._constant()
        # What is new is used more often, so that graphs become deep.
        return seen[-1 - min(int(self._random.expovariate(0.5)), len(seen) - 1)]

    def _several(self, seen: list[ast.Expr]) -> tuple[ast.Expr, ...]:
        return tuple(self._pick(seen) for _ in range(self._random.randint(0, 3)))

    def _var(self) -> ast.Var:
        return ast.Var(self._random.choice(NAMES), self._maybe_type())

    def _constant(self) -> ast.Expr:
        if self._random.random() < 0.3:
            return self._random.choice(self._tensors)
        value = self._random.choice([0, 1, -1, 0.1, -2.5, 1e-5, 100.0, np.inf, -np.inf, np.nan])
        dtype = self._random.choice(DTYPES[:5] if value == value and abs(value) < np.inf
                                    else DTYPES[:3])  # fmt: skip
        return ast.Constant(np.array(value).astype(dtype))

    def _array(self) -> np.ndarray:
        shape = tuple(self._random.randint(0, 3) for _ in range(self._random.randint(0, 3)))
        size = int(np.prod(shape))
        return np.arange(size).reshape(shape).astype(self._random.choice(DTYPES))

    def _operator(self) -> tuple[str, dict[str, ast.Attribute]]:
        number = self._random.randint(-5, 5)
        known: list[tuple[str, dict[str, ast.Attribute]]] = [
            ("add", {}),
            ("nn.softmax", {"axis": number if number != -1 else 0}),
            ("nn.batch_norm", {"epsilon": 0.25, "center": False}),
            ("clip", {"a_min": -0.1, "a_max": self._random.uniform(0, 1e30)}),
            ("cast", {"dtype": self._random.choice(DTYPES)}),
            ("layout_transform", {"src_layout": "NCHW", "dst_layout": "NCHW16c"}),
            ("nn.pad", {"pad_width": ((0, 0), (1, number)), "pad_mode": "edge"}),
            ("split", {"indices_or_sections": self._random.choice([2, (1, 3)]), "axis": 1}),
            ("reshape", {"newshape": (-1, number)}),
            ("nn.dense", {"units": None}),
            ("arange", {"start": np.array(1.0), "stop": np.array(True), "step": None}),
        ]
        name, attrs = self._random.choice(known)
        if not self._plain and self._random.random() < 0.3:
            return name, {"any.thing": self._attribute(0), "b": self._attribute(0)}
        return name, attrs

    def _attribute(self, depth: int) -> ast.Attribute:
        if depth < 3 and self._random.random() < 0.3:
            return tuple(self._attribute(depth + 1) for _ in range(self._random.randint(0, 3)))
        number = self._random.uniform(-1e300, 1e300)
        return self._random.choice(
            [0, -3, 1 << 40, 0.5, 1e-30, number, float("inf"), True, False, None, *STRINGS]
        )

    def _maybe_type(self) -> ast.Type | None:
        return self._type(0) if self._random.random() < 0.5 else None

    def _type(self, depth: int) -> ast.Type:
        if depth < 3 and self._random.random() < 0.2:
            parts = tuple(self._type(depth + 1) for _ in range(self._random.randint(0, 3)))
            if self._random.random() < 0.5:
                return ast.TupleType(parts)
            return ast.FuncType(parts, self._type(depth + 1))
        sizes = (None, 0, 1, 3, 224)
        shape = tuple(self._random.choice(sizes) for _ in range(self._random.randint(0, 4)))
        return ast.TensorType(shape, self._random.choice(DTYPES))


_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def damaged(text: str, seed: int) -> str:
    """A text with some characters or words taken out, doubled, exchanged or replaced."""
    source = random.Random(seed)
    parts = list(text) if source.random() < 0.4 else _WORD.findall(text)
    for _ in range(source.randint(1, 4)):
        if not parts:
            break
        at, other = source.randrange(len(parts)), source.randrange(len(parts))
        how = source.randrange(5)
        if how == 0:
            del parts[at]
        elif how == 1:
            parts.insert(at, parts[at])
        elif how == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif how == 3:
            parts[at] = parts[other]
        else:
            parts[at] = source.choice(
                ["(", ")", "{", "[", "/*", '"', "%", "1e", "-", "meta[", "\\"]
            )
    return "".join(parts)


_NUMBER = re.compile(r"(?<![\w.%\[])\d+(?![\w.])|(?<=float)\d+")
_STRANGE = ("0", "-1", "1", "7", "64", "999", "999999999", "2147483648", "9223372036854775807")


def with_strange_numbers(text: str, seed: int) -> str:
    """A text with one to three other numbers among its shapes, types and attributes."""
    source = random.Random(seed)
    places = list(_NUMBER.finditer(text.partition("#[metadata]")[0]))
    chosen = source.sample(places, min(len(places), source.randint(1, 3)))
    for place in sorted(chosen, key=lambda found: -found.start()):
        text = text[: place.start()] + source.choice(_STRANGE) + text[place.end() :]
    return text
