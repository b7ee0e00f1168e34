# SPDX-License-Identifier: Apache-2.0
"""Small files that stand for more than a machine holds are refused, in little time and memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from support.relay.bounded import load_bounded
from support.relay.samples import parameters
from support.relay.text import NAMES, SAMPLES
from tvm_ios import relay
from tvm_ios.relay.budget import BYTES, OPERATORS, PARTS, Budget
from tvm_ios.relay.metadata import write_metadata

HEADER = '#[version = "0.0.5"]\n'
X = "%x: Tensor[(2, 8), float32]"


def main(body: str, params: str = X) -> str:
    return f"{HEADER}def @main({params}) {{\n{body}\n}}\n"


def doubled(count: int, step: str, first: str, last: str) -> str:
    """Graph variables, each of which uses the one before it twice."""
    lines = [f"%0 = {first};"]
    lines += [f"%{i} = {step.format(f'%{i - 1}')};" for i in range(1, count)]
    return "\n".join([*lines, last.format(f"%{count - 1}")])


def functions(count: int, step: str) -> str:
    """Functions, each of which calls the one before it."""
    lines = [f"def @f0({X}) {{ nn.relu(%x) }}"]
    for i in range(1, count):
        lines.append(f"def @f{i}({X}) {{ {step.format(f'@f{i - 1}')} }}")
    return HEADER + "\n".join([*lines, f"def @main({X}) {{ @f{count - 1}(%x) }}\n"])


def with_constant(count: int) -> str:
    """A function that adds a large constant, called again and again."""
    value = np.zeros((1 << 20,), "float32")
    type_ = "Tensor[(1048576), float32]"
    calls = [f"%{i} = @add(%{i - 1});" for i in range(1, count)]
    return (
        f"{HEADER}def @add(%a: {type_}) {{ add(%a, meta[relay.Constant][0]) }}\n"
        f"def @main(%a: {type_}) {{ %0 = @add(%a);\n" + "\n".join(calls) + f"\n%{count - 1} }}\n"
        f"#[metadata]\n{write_metadata([value])}"
    )


class Document:
    """The nodes of TVM's JSON."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, object]] = [{"type_key": ""}]

    def add(self, type_key: str, text: str = "", data: object = None, **fields: object) -> int:
        node: dict[str, object] = {"type_key": type_key, "repr_str": text}
        node |= {"data": data} if data is not None else {}
        node |= {"attrs": {name: str(value) for name, value in fields.items()}} if fields else {}
        self.nodes.append(node)
        return len(self.nodes) - 1

    def array(self, *members: int) -> int:
        return self.add("Array", data=list(members))

    def tensor_type(self) -> int:
        shape = self.array(self.add("IntImm", dtype="int32", value=2))
        return self.add("relay.TensorType", shape=shape, dtype="float32")

    def var(self, type_: int) -> int:
        name = self.add("relay.Id", name_hint=self.add("runtime.String", "x"))
        return self.add("relay.Var", vid=name, type_annotation=type_, _checked_type_=0)

    def call(self, operator: str, args: int, attrs: int = 0, type_: int = 0) -> int:
        op = self.add("Op", operator)
        return self.add("relay.Call", op=op, args=args, attrs=attrs, _checked_type_=type_)

    def function(self, var: int, body: int, attrs: int = 0) -> str:
        params = self.array(var)
        root = self.add(
            "relay.Function", params=params, body=body, ret_type=0, type_params=0, attrs=attrs
        )
        return json.dumps({"root": root, "nodes": self.nodes, "b64ndarrays": []})


def shared_types(of_call: bool) -> str:
    document = Document()
    plain = type_ = document.tensor_type()
    for _ in range(50):
        type_ = document.add("TupleType", fields=document.array(type_, type_))
    var = document.var(plain if of_call else type_)
    if not of_call:
        return document.function(var, var)
    return document.function(var, document.call("nn.relu", document.array(var), 0, type_))


def shared_lists(of_operator: bool) -> str:
    document = Document()
    value = document.add("runtime.String", "x")
    for _ in range(29):
        value = document.array(value, value)
    var = document.var(document.tensor_type())
    if of_operator:
        attrs = document.add("relay.attrs.SqueezeAttrs", axis=value)
        return document.function(var, document.call("squeeze", document.array(var), attrs))
    attrs = document.add("Map", data=[document.add("runtime.String", "Inline"), value])
    return document.function(var, var, document.add("DictAttrs", __dict__=attrs))


def shared_arguments(count: int) -> str:
    """As many calls as each has arguments, which are one list."""
    document = Document()
    var = document.var(document.tensor_type())
    args = document.array(*[var] * count)
    calls = document.array(*[document.call("add", args) for _ in range(count)])
    return document.function(var, document.add("relay.Tuple", fields=calls))


def shared_bodies(count: int) -> str:
    """Functions of the module that all have one long body."""
    document = Document()
    type_ = document.tensor_type()
    var = body = document.var(type_)
    for _ in range(count):
        body = document.call("nn.relu", document.array(body))
    document.function(var, body)
    function = len(document.nodes) - 1
    names = [document.add("runtime.String", f"f{i}") for i in range(count)]
    pairs = [n for name in names for n in (document.add("GlobalVar", name_hint=name), function)]
    root = document.add("IRModule", functions=document.add("Map", data=pairs))
    return json.dumps({"root": root, "nodes": document.nodes, "b64ndarrays": []})


def arange(last: str) -> str:
    return main(f'arange(0f, {last}, 1f, start=0f, stop={last}, step=1f, dtype="float32")')


TILED = doubled(30, "tile({0}, reps=[8])", "1f", "add(%x, {0})")
CHANGED = "reshape(%0, newshape=[-1])"

GROWING: Mapping[str, tuple[str, str]] = {
    "functions": (functions(40, "{0}({0}(%x))"), "nn.relu (line 2)"),
    "lambdas": (
        main(doubled(40, f"fn ({X}) {{{{ {{0}}({{0}}(%x)) }}}}", f"fn ({X}) {{ %x }}", "{}(%x)")),
        "A function makes",
    ),
    "tuples": (main(doubled(40, "({0}, {0})", "%x", "{}")), "A tuple in @main"),
    "tuples of arguments": (
        main(doubled(40, "({0}, {0})", "%x", "concatenate({})")), "A tuple in @main"
    ),
    "tuples of functions": (
        main(doubled(40, "({0}, {0})", f"fn ({X}) {{ %x }}", "concatenate({})")),
        "A tuple in @main",
    ),
    "types of a parameter": (shared_types(False), "@main makes"),
    "types of a call": (shared_types(True), "@main makes"),
    "lists of an operator": (shared_lists(True), "relay.attrs.SqueezeAttrs"),
    "lists of a function": (shared_lists(False), "Map of the JSON"),
    "arguments of calls": (shared_arguments(4000), "A relay.Call of the JSON"),
    "bodies of functions": (shared_bodies(3000), "@f"),
    "arange": (arange("1e10f"), "arange (line 3)"),
    "zeros": (main('zeros(shape=[100000, 100000], dtype="float32")'), "zeros (line 3)"),
    "ones": (main('ones(shape=[100000, 100000], dtype="float32")'), "ones (line 3)"),
    "full": (main('full(1f, shape=[100000, 100000], dtype="float32")'), "full (line 3)"),
    "ones_like": (
        main("ones_like(%y)", "%y: Tensor[(100000, 100000), float32]"), "ones_like (line 3)"
    ),
    "broadcast_to": (main("broadcast_to(1f, shape=[100000, 100000])"), "broadcast_to (line 3)"),
    "tile": (main(TILED), "tile"),
    "repeat": (main("%0 = tile(1f, reps=[9]);\nrepeat(%0, repeats=1000000000, axis=0)"), "repeat"),
    "dropout": (main("nn.dropout(%y)", "%y: Tensor[(100000, 100000), float32]"), "nn.dropout"),
    "split": (
        main("split(%y, indices_or_sections=1000000000)", "%y: Tensor[(1000000000), int8]"),
        "split (line 3)",
    ),
    "pooling": (
        main(
            "nn.adaptive_max_pool2d(%y, output_size=[999999999, 999999999])",
            "%y: Tensor[(1, 1, 1000000, 1000000), int8]",
        ),
        "nn.adaptive_max_pool2d (line 3)",
    ),
    "a tensor for no machine": (
        main("broadcast_to(%x, shape=[99999999999, 99999999999, 2, 8])"), "no machine can hold"
    ),
    "a parameter for no machine": (
        main("%y", "%y: Tensor[(99999999999, 99999999999), int8]"), "Parameter 'y' of @main"
    ),
}  # fmt: skip

REFUSED: Mapping[str, tuple[str, str]] = {
    "new axes": (main("expand_dims(%x, axis=0, num_newaxis=1000000000)"), "num_newaxis"),
    "axes of a grid": (
        main(f"meshgrid(({', '.join(['%y'] * 9999)}))", "%y: Tensor[(1), int8]"),
        "9999 tensors",
    ),
    "a deep tuple": (main(doubled(9999, "({0},)", "%x", "{}")), "nests deeper than 60"),
    "a long projection": (main("%x" + 200_000 * ".0"), "is not bound"),
    "a type that TVM lacks": (main("%y", "%y: Tensor[(2), float999]"), "float999"),
}

SHARED: Mapping[str, str] = {
    "functions that call one another": functions(10_000, "{0}(%x)"),
    "a constant of a function": with_constant(1500),
    "a tuple that is used by parts": main(doubled(60, "({0}, {0})", "%x", "%x")),
}


@pytest.fixture(scope="module", params=[10, pytest.param(1, marks=pytest.mark.slow)])
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """By a tenth of the limits, which takes a tenth of the time, and by all of them."""
    texts = {name: text for name, (text, _) in {**GROWING, **REFUSED}.items()} | dict(SHARED)
    return load_bounded(texts, tmp_path_factory.mktemp("relay"), request.param)


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_is_refused(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name].startswith("ExpansionError: ")
    assert GROWING[name][1] in outcomes[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name].startswith("RelayError: ")
    assert REFUSED[name][1] in outcomes[name]


@pytest.mark.parametrize("name", SHARED)
def test_what_is_shared_stays_shared(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == "module"


@pytest.mark.parametrize("name", NAMES)
def test_networks_are_far_from_the_limits(name: str, monkeypatch) -> None:
    spent: Counter[str] = Counter()
    spend = Budget.spend

    def counted(self: Budget, what: str, count: int, where: str) -> None:
        spent[what] += count
        spend(self, what, count, where)

    monkeypatch.setattr(Budget, "spend", counted)
    relay.load(Path(SAMPLES / f"{name}.relay"), parameters(name)[1])
    limits = {"parts": PARTS, "operators": OPERATORS, "bytes": BYTES}
    assert all(20 * spent[what] < limit for what, limit in limits.items()), spent
