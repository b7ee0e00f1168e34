# SPDX-License-Identifier: Apache-2.0
"""Relay's JSON form and the file of parameters: what is read, what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from support.relay.json_document import to_json
from support.relay.text import (
    NAMES_IN_JSON,
    SAMPLES,
    assert_equal_values,
    assert_same,
    main,
)
from tvm_ios.errors import RelayError
from tvm_ios.relay import Module, ast, load_params, parse, to_text
from tvm_ios.relay.tensors import decode, encode

Document = dict[str, Any]


def document(text: str) -> Document:
    """The JSON of a module that is given as text."""
    return json.loads(to_json(parse(text)))


def load(found: Document) -> Module:
    return parse(json.dumps(found))


def node(found: Document, type_key: str) -> dict[str, Any]:
    """The first node of a type."""
    return next(node for node in found["nodes"] if node["type_key"] == type_key)


@pytest.mark.parametrize("name", NAMES_IN_JSON)
def test_a_sample_says_the_same_in_both_forms(name: str) -> None:
    from_text = parse(SAMPLES / f"{name}.relay")
    from_json = parse(SAMPLES / f"{name}.json")
    assert_same(from_text, from_json)
    assert to_text(from_text) == to_text(from_json)
    names = [
        [param.name for param in module.functions["main"].params]
        for module in (from_text, from_json)
    ]
    assert (
        names[0]
        == names[1]
        == [
            entry["name"]
            for entry in json.loads((SAMPLES / f"{name}.meta.json").read_text())["params"]
        ]
    )


def test_the_constants_of_a_sample_are_its_tensors() -> None:
    found = json.loads((SAMPLES / "constants.json").read_text())
    body = parse(SAMPLES / "constants.json").functions["main"].body
    assert_equal_values(body.args[1].value, decode(found["b64ndarrays"][-1]))
    assert body.args[1].value.shape == (5,)
    assert np.abs(body.args[1].value).max() < 0.5


def test_a_function_alone_is_main() -> None:
    found = document(main("nn.relu(%x)"))
    function = found["nodes"].index(node(found, "relay.Function"))
    assert_same(load(found | {"root": function}), parse(main("nn.relu(%x)")))


def test_functions_are_in_the_order_of_their_names() -> None:
    text = '#[version = "0.0.5"]\ndef @z() { 1 }\ndef @a() { @z() }'
    assert list(load(document(text)).functions) == ["a", "z"]


def test_strings_may_be_nodes_or_written_out() -> None:
    """Versions differ in which of an operator's strings are nodes."""
    found = document(main('layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")'))
    fields = node(found, "relay.attrs.LayoutTransformAttrs")["attrs"]
    found["nodes"].append({"type_key": "runtime.String", "repr_str": "NCHW16c"})
    fields["dst_layout"] = str(len(found["nodes"]) - 1)
    attrs = load(found).functions["main"].body.attrs
    assert attrs == {"src_layout": "NCHW", "dst_layout": "NCHW16c"}


def test_strings_may_be_in_base64() -> None:
    found = document(main('nn.pad(%x, pad_width=[[1, 2]], pad_mode="edge")'))
    string = next(n for n in found["nodes"] if n.get("repr_str") == "edge")
    del string["repr_str"]
    # As TVM writes it: eight bytes of length before it.
    string["repr_b64"] = "BAAAAAAAAADDqQrC"
    with pytest.raises(RelayError, match="a node that is not one of TVM's"):
        load(found)
    string["repr_b64"] = "AwAAAAAAAADDqQo="
    assert load(found).functions["main"].body.attrs["pad_mode"] == "é\n"


def test_attributes_that_are_missing_are_the_default() -> None:
    found = document(main("nn.batch_norm(%x, axis=3)"))
    fields = node(found, "relay.attrs.BatchNormAttrs")["attrs"]
    assert fields["scale"] == "1"
    del fields["scale"]
    assert load(found).functions["main"].body.attrs == {"axis": 3}


@pytest.mark.parametrize(
    ("rank", "version", "layout", "read"),
    [
        (1, "0.8.0", "OIW", "IOW"), (1, "0.11.1", "WOI", "WIO"), (1, "0.12.0", "OIW", "OIW"),
        (3, "0.10.dev0", "OIDHW", "IODHW"), (3, "0.19.0", "OIDHW", "OIDHW"),
        (2, "0.8.0", "OIHW", "OIHW"), (3, None, "OIDHW", "OIDHW"), (1, "", "OIW", "OIW"),
    ],
)  # fmt: skip
def test_layouts_that_old_versions_misnamed(
    rank: int, version: str | None, layout: str, read: str
) -> None:
    found = document(main('layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")'))
    attrs = node(found, "relay.attrs.LayoutTransformAttrs")
    attrs |= {
        "type_key": f"relay.attrs.Conv{rank}DTransposeAttrs",
        "attrs": {"groups": "1", "kernel_layout": layout},
    }
    found["attrs"] = {"tvm_version": version}
    kept = load(found).functions["main"].body.attrs
    default = {1: "IOW", 2: "IOHW", 3: "IODHW"}[rank]
    assert kept == ({} if read == default else {"kernel_layout": read})


def test_the_type_of_a_variable_may_be_what_tvm_found() -> None:
    found = document(main("%x"))
    fields = node(found, "relay.Var")["attrs"]
    fields["_checked_type_"], fields["type_annotation"] = fields["type_annotation"], "0"
    assert load(found).functions["main"].params[0].type == ast.TensorType((2, 3))
    # What is not asked for need not be known.
    node(found, "relay.TensorType")["type_key"] = "TypeVar"
    assert load(found).functions["main"].params[0].type is None
    fields["type_annotation"] = fields["_checked_type_"]
    with pytest.raises(RelayError, match="The type of %x is a TypeVar, which cannot be converted"):
        load(found)


def test_long_chains_do_not_recurse() -> None:
    links = [f"let %x{i} = nn.relu(%x{i - 1 if i > 1 else ''});" for i in range(1, 5001)]
    module = parse(main("\n  ".join([*links, "%x5000"])))
    assert_same(parse(to_json(module)), module)


def test_operators_that_are_not_known_are_named_together() -> None:
    found = document(main('(clip(%x, a_min=0f), nn.softmax(%x, axis=0), cast(%x, dtype="int8"))'))
    for kind in ("Clip", "Cast"):
        node(found, f"relay.attrs.{kind}Attrs")["type_key"] = f"relay.attrs.My{kind}Attrs"
    with pytest.raises(
        RelayError, match="The attributes of cast, clip are not known, so that they"
    ):
        load(found)


def change(type_key: str, **fields: str):
    """Let a node have other fields."""

    def apply(found: Document) -> None:
        node(found, type_key)["attrs"] |= fields

    return apply


def rename(type_key: str, other: str):
    """Let a node be of another type."""

    def apply(found: Document) -> None:
        node(found, type_key)["type_key"] = other

    return apply


def _own_part(found: Document) -> None:
    call = node(found, "relay.Call")
    args = found["nodes"][int(call["attrs"]["args"])]
    args["data"] = [found["nodes"].index(call)]


def _generic(found: Document) -> None:
    function = node(found, "relay.Function")
    found["nodes"].append({"type_key": "Array", "data": [1]})
    function["attrs"]["type_params"] = str(len(found["nodes"]) - 1)


def _deep_list(found: Document) -> None:
    """An attribute of a function that is a list in a list in a list."""
    for _ in range(5000):
        found["nodes"].append({"type_key": "Array", "data": [len(found["nodes"]) - 1]})
    fields = node(found, "Map") | {"keys": ["a"], "data": [len(found["nodes"]) - 1]}
    node(found, "Map").update(fields)


def _deep_type(found: Document) -> None:
    """The type of a variable that is a tuple of a tuple of a tuple."""
    nodes, fields = found["nodes"], node(found, "relay.Var")["attrs"]
    for _ in range(5000):
        nodes.append({"type_key": "Array", "data": [int(fields["type_annotation"])]})
        nodes.append({"type_key": "TupleType", "attrs": {"fields": str(len(nodes) - 1)}})
        fields["type_annotation"] = str(len(nodes) - 1)


def _damage_tensor(found: Document) -> None:
    found["b64ndarrays"][0] = found["b64ndarrays"][0][:40]


REFUSED = {
    "a part of itself": (_own_part, "of the JSON is part of itself"),
    "a deep list": (_deep_list, "is a list that nests too deep"),
    "a deep type": (_deep_type, "@main nests deeper than 60 levels"),
    "generic": (_generic, "Generic functions cannot be converted"),
    "a damaged tensor": (_damage_tensor, "Tensor 0 of the JSON is damaged: The tensor's header"),
    "another type of operator": (rename("Op", "relay.Match"), "What is called is a relay.Match"),
    "lowered": (rename("relay.Function", "tir.PrimFunc"), "main is a tir.PrimFunc, not a function"),
    "a node too far": (change("relay.Call", args="1000"), "refers to node 1000"),
    "no number": (change("relay.Call", args="x"), "whose args is 'x', not a number"),
    "no list": (change("relay.Call", args="0"), "has no list where the arguments of"),
    "no value": (change("relay.Constant", data="7"), "The JSON has no tensor 7"),
    "no attributes": (change("relay.Call", attrs="1"), "are a str, which cannot be read"),
    "an unknown attribute": (
        change("relay.attrs.SoftmaxAttrs", beta="1"), "has the unknown attribute beta",
    ),
    "no axis": (change("relay.attrs.SoftmaxAttrs", axis="one"), "whose axis is 'one', not a"),
    "no name": (change("relay.Id", name_hint="0"), "a variable without a name"),
    "a strange root": (lambda found: found.update(root="1"), "root is not the index of a node"),
    "no nodes": (lambda found: found.pop("nodes"), "it has no list of nodes"),
    "a strange node": (lambda found: found["nodes"].append(1), "a node that is not one of TVM's"),
    "strange fields": (
        lambda found: node(found, "Op").update(attrs={"a": 1}), "a node that is not one of TVM's",
    ),
    "strange tensors": (lambda found: found.update(b64ndarrays=3), "b64ndarrays are not a list"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_damaged_json_is_refused(case: str) -> None:
    damage, message = REFUSED[case]
    found = document(main("nn.softmax((%x, 1), axis=0)"))
    load(found)
    damage(found)
    with pytest.raises(RelayError, match=message):
        load(found)


def test_functions_that_call_themselves_are_refused() -> None:
    found = document('#[version = "0.0.5"]\ndef @a() { 1 }\ndef @b() { @a() }')
    names = [n for n in found["nodes"] if n.get("repr_str") in ("a", "b")]
    names[0]["repr_str"], names[1]["repr_str"] = "b", "a"
    assert list(load(found).functions) == ["a", "b"]
    for name in names:
        name["repr_str"] = "a"
    with pytest.raises(RelayError, match="has two functions a"):
        load(found)
    x = ast.GlobalVar("b")
    module = Module({"b": ast.Function((), ast.Call(x, ()))})
    with pytest.raises(RelayError, match="In @b: @b calls itself; recursive functions cannot"):
        parse(to_json(module))
    unknown = Module({"b": ast.Function((), ast.Call(ast.GlobalVar("c"), ()))})
    with pytest.raises(RelayError, match="In @b: There is no function @c in this module"):
        parse(to_json(unknown))


def test_variables_are_bound_once_and_before_they_are_used() -> None:
    x = ast.Var("x")
    one = ast.Constant(np.array(1))
    free = Module({"f": ast.Function((), ast.Let(ast.Var("x"), one, x))})
    with pytest.raises(RelayError, match="%x is used in @f where it is not bound"):
        parse(to_json(free))
    twice = Module({"f": ast.Function((x,), ast.Let(x, one, x))})
    with pytest.raises(RelayError, match="%x is bound twice in @f"):
        parse(to_json(twice))


def test_damaged_text_is_pointed_at() -> None:
    with pytest.raises(RelayError, match="The JSON is damaged here") as raised:
        parse('{\n  "nodes": [1,, 2]\n}')
    assert (raised.value.line, raised.value.column) == (2, 15)


TENSORS = {
    "matrix": np.arange(6, dtype="float32").reshape(2, 3),
    "transposed": np.arange(6, dtype="int64").reshape(2, 3).T,
    "scalar": np.array(2.5, "float64"),
    "empty": np.zeros((0, 4), "uint8"),
    "half": np.array([1, -2], "float16"),
    "flags": np.array([True, False]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name: str) -> None:
    assert_equal_values(decode(encode(TENSORS[name])), np.array(TENSORS[name], order="C"))


def test_parameters_are_read_as_tvm_saves_them(tmp_path: Path) -> None:
    path = tmp_path / "model.params"
    arrays = {name: np.array(array, order="C") for name, array in TENSORS.items()}
    path.write_bytes(bytes(tvm.runtime.save_param_dict(arrays)))
    read = load_params(path)
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_equal_values(read[name], array)


def test_damaged_parameters_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.params"
    data = bytes(tvm.runtime.save_param_dict({"weights": TENSORS["matrix"]}))
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(RelayError, match=r"model\.params is (damaged|not a file of)"):
            load_params(path)
    for at, value in ((16, 2), (24, 1 << 60), (39, 3), (47, 0), (71, 2), (79, 9), (95, 1 << 62)):
        path.write_bytes(data[:at] + struct.pack("<Q", value) + data[at + 8 :])
        with pytest.raises(RelayError, match="is damaged"):
            load_params(path)
    path.write_bytes(b"PK" + data)
    with pytest.raises(RelayError, match=r"write one with tvm\.runtime\.save_param_dict"):
        load_params(path)
    with pytest.raises(RelayError, match="Cannot read"):
        load_params(tmp_path / "missing")
