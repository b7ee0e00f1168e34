# SPDX-License-Identifier: Apache-2.0
"""Relay's text form: every spelling is read and written."""

from __future__ import annotations

import re

import numpy as np
import pytest

from support.relay.text import (
    HEADER,
    METADATA,
    NAMES,
    SAMPLES,
    WEIGHTS,
    assert_equal_values,
    assert_same,
    body_of,
    main,
)
from tvm_ios.errors import RelayError
from tvm_ios.relay import Module, ast, parse, to_text
from tvm_ios.relay.ast import FuncType, TensorType, TupleType

MATRIX = TensorType((2, 3))


def attribute(text: str) -> ast.Attribute:
    return body_of(f"f(%x, a={text})", metadata=METADATA).attrs["a"]


def type_of(text: str) -> ast.Type | None:
    return parse(main("%y", f"%y: {text}", METADATA)).functions["main"].params[0].type


def without_comments(text: str) -> str:
    return re.sub(r" /\*.*?\*/", "", text.partition("#[metadata]")[0]).strip()


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_written_as_tvm_wrote_it(name: str) -> None:
    text = (SAMPLES / f"{name}.relay").read_text()
    written = to_text(parse(text))
    boxed = without_comments(text).replace("meta[runtime.BoxInt][0]", "2")
    assert without_comments(written) == boxed
    assert_same(parse(text), parse(written))
    assert to_text(parse(written)) == written


def test_a_sample_says_what_it_holds() -> None:
    functions = parse(SAMPLES / "branches.relay").functions
    (scores, mean, softmax) = functions["main"].body.fields
    assert [param.name for param in functions["main"].params] == ["data", "w1", "w2", "b"]
    assert functions["main"].result.fields[1] == TensorType((1, 40))
    left, right = scores.args
    split = left.args[0].tuple_value
    assert split is right.tuple_value
    assert (left.args[0].index, right.index) == (0, 1)
    assert split.attrs == {"indices_or_sections": 2, "axis": 1}
    assert (mean.attrs, softmax.attrs) == ({"axis": (2, 3)}, {})
    assert split.line == 11
    assert split.type == TupleType((TensorType((1, 20, 14, 14)),) * 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", np.int32(1)), ("-1", np.int32(-1)), ("3000000000", np.int64(3000000000)),
        ("1i64", np.int64(1)), ("7i16", np.int16(7)), ("7i32", np.int32(7)),
        ("1f", np.float32(1)), ("2.5e-3f", np.float32(2.5e-3)), ("1e+20f", np.float32(1e20)),
        ("0.1f16", np.float16(0.1)), ("0.1f32", np.float32(0.1)), ("-0.1f64", np.float64(-0.1)),
        ("3.f", np.float32(3)), ("1E5f", np.float32(1e5)), ("inff", np.float32(np.inf)),
        ("-inff", np.float32(-np.inf)), ("nanf", np.float32(np.nan)),
        ("inff16", np.float16(np.inf)), ("True", np.bool_(True)), ("False", np.bool_(False)),
    ],
)  # fmt: skip
def test_scalars(text: str, value: np.generic) -> None:
    body = body_of(f"add(%x, {text} /* ty={value.dtype} */)")
    assert_equal_values(body.args[1].value, np.array(value))
    assert_same(parse(to_text(Module({"main": ast.Function((), body.args[1])}))),
                Module({"main": ast.Function((), body.args[1])}))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-1", -1), ("9i64", 9), ("0.1f", 0.1), ("1e-05f", 1e-5), ("2f", 2.0),
        ("-inff", -np.inf), ("1.5f64", 1.5), ("True", True), ("False", False), ("None", None),
        ("nullptr", None), ('"NCHW"', "NCHW"), ('""', ""), (r'"a\"b\\c\n\t\r"', 'a"b\\c\n\t\r'),
        (r'"\xC3\xA9"', "é"), ('"é"', "é"), ("[]", ()), ("[1, 2]", (1, 2)), ("[1,]", (1,)),
        ("[[0, 1], [2f, None]]", ((0, 1), (2.0, None))), ('["a", True]', ("a", True)),
        ("(3)", 3), ("meta[runtime.BoxInt][0]", -7), ("meta[runtime.BoxBool][0]", True),
        ("[meta[runtime.BoxInt][0], 2]", (-7, 2)), ("meta[Array][0]", (-7, True)),
        ("meta[relay.Constant][0]", WEIGHTS), ("meta[tir.Any][0]", None),
    ],
)  # fmt: skip
def test_attributes(text: str, value: object) -> None:
    assert_equal_values(attribute(text), value)
    body = body_of(f"f(%x, b.c=1, a={text}, d=2)", metadata=METADATA)
    assert list(body.attrs) == ["b.c", "a", "d"]
    again = parse(to_text(parse(main(f"f(%x, a={text})", metadata=METADATA))))
    assert_equal_values(again.functions["main"].body.attrs["a"], value)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("Tensor[(1, 3), int8]", TensorType((1, 3), "int8")),
        ("Tensor[(), float32]", TensorType(())),
        ("Tensor[(1,), bfloat16]", TensorType((1,), "bfloat16")),
        ("Tensor[(?, 3i64), bool]", TensorType((None, 3), "bool")),
        ("Tensor[(meta[tir.Any][0], 2), float32]", TensorType((None, 2))),
        ("float64", TensorType((), "float64")),
        ("bool", TensorType((), "bool")),
        ("uint8", TensorType((), "uint8")),
        ("()", TupleType(())),
        ("(int32,)", TupleType((TensorType((), "int32"),))),
        ("(int32, (Tensor[(2, 3), float32],))", TupleType((TensorType((), "int32"),
                                                           TupleType((MATRIX,))))),
        ("fn (int32, Tensor[(2, 3), float32]) -> (bool,)",
         FuncType((TensorType((), "int32"), MATRIX), TupleType((TensorType((), "bool"),)))),
        ("_", None),
    ],
)  # fmt: skip
def test_types(text: str, type_: ast.Type | None) -> None:
    assert type_of(text) == type_
    if "meta" not in text:
        assert type_of(f"{text} /* ty=int8 */") == (type_ or TensorType((), "int8"))
    printed = to_text(parse(main("%y", f"%y: {text}", METADATA)))
    assert parse(printed).functions["main"].params[0].type == type_


def test_infix_operators_bind_as_in_tvm() -> None:
    def show(expr: ast.Expr) -> str:
        if isinstance(expr, ast.Call):
            return f"{expr.callee.name}({', '.join(show(arg) for arg in expr.args)})"
        return expr.name

    def shown(text: str) -> str:
        return show(body_of(text, "%a, %b, %c"))

    assert shown("%a - %b - %c") == "subtract(subtract(a, b), c)"
    assert shown("%a + %b * %c") == "add(a, multiply(b, c))"
    assert shown("%a / %b + %c") == "add(divide(a, b), c)"
    assert shown("%a * (%b - %c)") == "multiply(a, subtract(b, c))"
    assert shown("%a < %b == %c") == "equal(less(a, b), c)"
    assert shown("%a != %b + %c >= %a") == "not_equal(a, greater_equal(add(b, c), a))"
    assert shown("%a > %b <= %c") == "less_equal(greater(a, b), c)"


def test_comments_are_passed_over() -> None:
    body = body_of(
        '// one line: %y\n  /* many\n lines, /* nested */ " */ nn.relu(/* */ %x) '
        "/* ty=Tensor[(2, 3), float32] span=model.py:3:4 */ // the end"
    )
    assert (body.callee.name, body.type, body.line) == ("nn.relu", MATRIX, 5)
    for comment in ("ty=List[int32]", "ty=", "ty=(int32", "type", "ty=Tensor[(2), int32] extra"):
        assert body_of(f"nn.relu(%x) /* {comment} */").type is None
    assert body_of("nn.relu(%x)/* span=a:1:2 */").type is None


def test_the_type_of_a_variable_may_be_in_a_comment() -> None:
    params = "%x /* ty=Tensor[(2, 3), float32] */, %y: int8 /* ty=int32 */"
    function = parse(main("let %z /* ty=bool */ = f(%x, %y); %z", params)).functions["main"]
    assert [var.type for var in function.params] == [MATRIX, TensorType((), "int8")]
    assert function.body.var.type == TensorType((), "bool")


def test_names_may_have_dots() -> None:
    params = "%features.0.weight: int32, %a, %a.1, %scope/conv/bn: int8"
    function = parse(main("(%features.0.weight, %a.0, %a.1, %a.1.2, %scope/conv/bn)", params))
    fields = function.functions["main"].body.fields
    first, a, b, last = function.functions["main"].params
    assert [first.name, last.name] == ["features.0.weight", "scope/conv/bn"]
    assert (fields[0], fields[2], fields[4]) == (first, b, last)
    assert (fields[1].tuple_value, fields[1].index) == (a, 0)
    assert (fields[3].tuple_value, fields[3].index) == (b, 2)
    assert_same(parse(to_text(function)), function)


def test_a_projection_is_told_from_a_name_when_written() -> None:
    pair, other = ast.Var("a"), ast.Var("a.1")
    body = ast.Tuple((ast.TupleGetItem(pair, 1), ast.TupleGetItem(pair, 0), other))
    module = Module({"main": ast.Function((pair, other), body)})
    text = to_text(module)
    assert "%0 = (%a).1;" in text
    assert "%1 = %a.0;" in text
    assert_same(parse(text), module)


def test_what_is_bound_to_a_graph_variable_is_one_object() -> None:
    body = body_of("%0 = nn.relu(%x);\n  %1 = (%0, %0);\n  (%1.0, %1, %0)")
    relu = body.fields[2]
    assert body.fields[1].fields == (relu, relu)
    assert body.fields[0].tuple_value is body.fields[1]
    assert relu.line == 3


def test_scopes() -> None:
    text = "let %t = ({let %t = f(%x); g(%t)}, {let %t = 1; %t}, %x); h(%t)"
    outer = body_of(text.replace("{", "(").replace("}", ")"))
    first, second, x = outer.value.fields
    assert outer.body.args == (outer.var,)
    assert first.body.args == (first.var,)
    assert first.value.args == (x,)
    assert second.body is second.var
    assert len({outer.var, first.var, second.var}) == 3


def test_branches_and_functions() -> None:
    body = body_of(
        "%0 = if (less(%y, 1f)) { let %t = f(%x); %t } else { %1 = g(%x); h(%1) };\n"
        "  %2 = fn (%z: int8, Primitive=1, Compiler=\"c\") -> int8 { add(%z, %x) };\n"
        "  (%0, %2(%1), fn () { fn (%v) { %v } }()(%y), f(nn.relu))",
        "%x: int8, %y: float32",
    )  # fmt: skip
    branch, called, curried, argument = body.fields
    assert branch.otherwise.args == called.args  # from within the branch, as TVM writes it
    assert called.callee.attrs == {"Primitive": 1, "Compiler": "c"}
    assert called.callee.result == TensorType((), "int8")
    assert called.callee.body.args[1] is branch.then.value.args[0]
    assert isinstance(curried.callee.callee, ast.Function)
    assert argument.args[0].name == "nn.relu"


def test_what_is_not_used_is_a_let() -> None:
    body = body_of("f(%x); { g(%x) }; %x")
    assert (body.var.name, body.value.callee.name) == ("", "f")
    assert body.body.value.callee.name == "g"
    text = to_text(Module({"main": ast.Function((body.body.body,), body)}))
    assert "let %v = f(%x);\n  let %v1 = g(%x);\n  %x" in text


def test_devices_are_left_out() -> None:
    device = "virtual_device_=meta[VirtualDevice][0]"
    params = f'%x {{{device}}}: int8, {device}, global_symbol="f"'
    function = parse(main(f"on_device(%x, {device}, a=1)", params, METADATA)).functions["main"]
    assert function.attrs == {"global_symbol": "f"}
    assert function.body.attrs == {"a": 1}
    assert function.params[0].type == TensorType((), "int8")


def test_metadata_holds_constants_and_attributes() -> None:
    constant = "meta[relay.Constant][0] /* ty=Tensor[(2, 3), float32] */"
    text = f"%0 = nn.softmax({constant}, meta[relay.attrs.SoftmaxAttrs][0]); add(%0, {constant})"
    body = body_of(text, metadata=METADATA)
    softmax = body.args[0]
    assert softmax.attrs == {"axis": 1}
    assert softmax.args == (body.args[1],)
    assert_equal_values(body.args[1].value, WEIGHTS)
    assert_same(parse(to_text(parse(main(text, metadata=METADATA)))),
                parse(main(text, metadata=METADATA)))  # fmt: skip


def test_a_function_alone_is_main() -> None:
    module = parse(HEADER + "fn (%x: int8) { %x }")
    assert list(module.functions) == ["main"]
    with pytest.raises(RelayError, match="Expected the end, found 'def'"):
        parse(HEADER + "fn () { 1 }\ndef @f() { 1 }")
    assert parse(HEADER).functions == {}


def test_functions_are_called_by_name() -> None:
    text = (
        HEADER + "def @a(%x) { @b.c(%x) }\ndef @b.c(%x) { (@d)(%x) }\ndef @d(%y) { %0 = f(%y); %0 }"
    )
    module = parse(text)
    assert list(module.functions) == ["a", "b.c", "d"]
    assert module.functions["a"].body.callee.name == "b.c"
    assert_same(parse(to_text(module)), module)


CHAINS = {
    "lets": ("let %x{0} = nn.relu(%x{1});", "%x5000"),
    "graph variables": ("%{0} = add(%{1}, %x);", "%5000"),
    "infix operators": ("%x +", "%x"),
    "unused": ("f(%x);", "%x"),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_long_chains_do_not_recurse(kind: str) -> None:
    link, end = CHAINS[kind]
    links = [link.format(i, i - 1 if i > 1 else "") for i in range(1, 5001)]
    text = main("\n  ".join([*links, end]), "%x, %x5001").replace("(%, ", "(%x, ")
    module = parse(text)
    written = to_text(module)
    again = parse(written)
    assert_same(module, again)
    assert to_text(again) == written


def test_names_are_made_writable() -> None:
    names = ["", "1", "a:0", "a b", "_x", "a..b", "a.", "/a", "é", "a", "a", "a1", "let", "a//b"]
    params = tuple(ast.Var(name) for name in names)
    text = to_text(Module({"main": ast.Function(params, ast.Tuple(params))}))
    written = [param.name for param in parse(text).functions["main"].params]
    assert len(set(written)) == len(names)
    assert written[:4] == ["v", "v1", "a_0", "a_b"]
    assert to_text(parse(text)) == text
    for name in ("a b", "", "let", "é"):
        with pytest.raises(RelayError, match="is not a valid name in Relay's text form"):
            to_text(Module({"main": ast.Function((), ast.Call(ast.Operator(name), ()))}))


def test_what_cannot_be_written() -> None:
    free = ast.Function((), ast.Var("x"))
    with pytest.raises(RelayError, match="%x is used in @main where it is not bound"):
        to_text(Module({"main": free}))
    nested: ast.Expr = ast.Tuple(())
    for _ in range(100):
        nested = ast.If(ast.Tuple(()), nested, ast.Tuple(()))
    with pytest.raises(RelayError, match="@main nests deeper than 60 levels"):
        to_text(Module({"main": ast.Function((), nested)}))
    complex_ = ast.Constant(np.ones(2, "complex64"))
    with pytest.raises(ValueError, match="no elements of type complex64"):
        to_text(Module({"main": ast.Function((), complex_)}))


def test_what_is_written_first_is_bound_where_all_see_it() -> None:
    """A branch that is written late may bind what others use: it has to come before them."""
    x = ast.Var("x")
    shared = ast.Call(ast.Operator("f"), (x,))
    used = ast.Call(ast.Operator("g"), (shared,))
    branch = ast.If(x, used, shared)
    body = ast.Tuple((branch, ast.Call(ast.Operator("h"), (used, shared))))
    module = Module({"main": ast.Function((x,), body)})
    assert_same(parse(to_text(module)), module)
