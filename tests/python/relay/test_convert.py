# SPDX-License-Identifier: Apache-2.0
"""Functions, tuples, branches and parameters of Relay in Relax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.networks import assert_close
from support.relay.cases import call, evaluate, module, operators_of, rand, variable
from tvm_ios.errors import RelayError
from tvm_ios.relay.ast import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Module,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
)
from tvm_ios.relay.convert import convert

VALUE = rand(2, 3)
X = variable("x", VALUE)
Y = variable("y", VALUE)


def apply(callee: Expr, *arguments: Expr, line: int | None = None) -> Call:
    return Call(callee, arguments, line=line)


def number(value: float, dtype: str = "float32") -> Constant:
    return Constant(np.array(value, dtype))


def doubled() -> Function:
    """``fn (%a) { %a + %a }``."""
    a = Var("a")
    return Function((a,), call("add", a, a))


def test_functions_are_inlined_wherever_they_are_called() -> None:
    twice = Function((a := Var("a"),), apply(GlobalVar("double"), apply(GlobalVar("double"), a)))
    body = call("add", apply(GlobalVar("twice"), X), apply(GlobalVar("double"), X))
    (actual,) = evaluate(module(body, X, twice=twice, double=doubled()), VALUE)
    assert_close(actual, 6 * VALUE, 1e-6)


def test_a_local_function_sees_what_is_around_it() -> None:
    scaled = call("multiply", X, number(3))
    local = Var("f")
    inner = Function((a := Var("a"),), call("add", a, scaled))
    calls = call("add", apply(local, X), apply(local, scaled))
    mod = module(Let(local, inner, call("add", calls, scaled)), X)
    assert operators_of(convert(mod)) == ["multiply", "add", "add", "add", "add"]
    (actual,) = evaluate(mod, VALUE)
    assert_close(actual, (4 + 6 + 3) * VALUE, 1e-6)


def test_what_is_within_a_function_is_shared_by_its_calls_if_it_can_be() -> None:
    outside = call("exp", X)
    inner = Function((a := Var("a"),), call("add", a, outside))
    mod = module(call("add", apply(inner, X), apply(inner, Y)), X, Y)
    assert operators_of(convert(mod)).count("exp") == 1


def test_functions_may_be_arguments_and_results() -> None:
    f, a = Var("f"), Var("a")
    applied = Function((f, a), apply(f, apply(f, a)))
    shift = Var("by")
    maker = Function((shift,), Function((b := Var("b"),), call("add", b, shift)))
    body = apply(applied, apply(maker, X), apply(applied, doubled(), X))
    (actual,) = evaluate(module(body, X), VALUE)
    assert_close(actual, 6 * VALUE, 1e-6)


def test_a_value_is_computed_once() -> None:
    shared = call("exp", X)
    body = call("add", call("multiply", shared, shared), shared)
    assert operators_of(convert(module(body, X))) == ["exp", "multiply", "add"]


def test_tuples_are_taken_apart() -> None:
    pair = Tuple((call("exp", X), Tuple((X, Y))))
    body = call("add", TupleGetItem(pair, 0), TupleGetItem(TupleGetItem(pair, 1), 1))
    (actual,) = evaluate(module(body, X, Y), VALUE, 2 * VALUE)
    assert_close(actual, np.exp(VALUE) + 2 * VALUE, 1e-6)


def test_results_and_arguments_may_be_tuples() -> None:
    tensor = TensorType((2, 3))
    pair = Var("pair", TupleType((tensor, TupleType((tensor,)))))
    body = Tuple((TupleGetItem(TupleGetItem(pair, 1), 0), Tuple((X, TupleGetItem(pair, 0)))))
    results = evaluate(module(body, pair, X), (VALUE, (2 * VALUE,)), 3 * VALUE)
    for factor, actual in zip((2, 3, 1), results, strict=True):
        assert_close(actual, factor * VALUE, 1e-6)


@pytest.mark.parametrize(("condition", "expected"), [(True, 2.0), (False, 3.0)])
def test_of_an_if_one_branch_is_left(condition: bool, expected: float) -> None:
    flag = Var("flag", TensorType((), "bool"))
    choice = If(flag, call("multiply", X, number(2)), call("multiply", X, number(3)))
    mod = module(choice, X, flag)
    (actual,) = evaluate(mod, VALUE, params={"flag": np.array(condition)})
    assert_close(actual, expected * VALUE, 1e-6)
    assert operators_of(convert(mod, {"flag": np.array(condition)})) == ["multiply"]


@pytest.mark.parametrize("long", ["calls", "lets", "ifs", "functions"])
def test_a_deep_graph_needs_no_deep_stack(long: str) -> None:
    expr: Expr = X
    functions = {}
    for i in range(2000):
        if long == "calls":
            expr = TupleGetItem(Tuple((call("copy", expr),)), 0)
        elif long == "lets":
            expr = Let(Var(f"v{i}"), call("copy", X), expr)
        elif long == "ifs":
            expr = If(number(1, "bool"), expr, X)
        else:
            a = Var("a")
            functions[f"f{i}"] = Function((a,), apply(GlobalVar(f"f{i - 1}"), a) if i else a)
            expr = apply(GlobalVar(f"f{i}"), X)
    (actual,) = evaluate(module(expr, X, **functions), VALUE)
    assert_close(actual, VALUE)


def test_values_of_parameters_become_constants() -> None:
    mod = module(call("add", X, Y), X, Y)
    assert [p.name for p in convert(mod, {"x": VALUE})["main"].params] == ["y"]
    (actual,) = evaluate(mod, VALUE, params={"x": 2 * VALUE})
    assert_close(actual, 3 * VALUE, 1e-6)


def test_open_dimensions_are_given() -> None:
    x = Var("x", TensorType((None, 3)))
    sum_ = Call(call("add", x, x).callee, (x, x), type=TensorType((None, 3)))
    with pytest.raises(RelayError, match="'x' of @main has unknown dimensions"):
        convert(module(sum_, x))
    with pytest.raises(RelayError, match=r"is float32 \[\?, 3\], which .* \[2, 4\], does not fit"):
        convert(module(sum_, x), input_shapes={"x": (2, 4)})
    with pytest.raises(RelayError, match="no parameter y; its parameters: x"):
        convert(module(sum_, x), input_shapes={"y": (2, 4)})
    shaped = convert(module(sum_, x), input_shapes={"x": (5, 3)})
    assert [int(n) for n in shaped["main"].params[0].ty.shape.values] == [5, 3]


def test_all_values_that_do_not_fit_are_told() -> None:
    values = {"x": VALUE[:1], "y": VALUE.astype("float64"), "z": VALUE}
    with pytest.raises(RelayError) as raised:
        convert(module(call("add", X, Y), X, Y), values)
    for part in (
        "there is no parameter 'z'",
        "'x' is float32 [2, 3], not float32 [1, 3]",
        "'y' is float32 [2, 3], not float64 [2, 3]",
    ):
        assert part in str(raised.value)


def test_all_operators_that_are_not_known_are_told() -> None:
    other = Function((a := Var("a"),), call("vision.nms", a, line=9))
    chosen = If(number(1, "bool"), apply(GlobalVar("other"), X), call("nn.foo", X))
    with pytest.raises(RelayError, match=r"nn\.foo, vision\.nms \(line 9\)"):
        convert(module(call("add", chosen, X), X, other=other))


def _recursive(name: str) -> Module:
    a, f = Var("a"), Var("f")
    if name == "local":
        return module(Let(f, Function((a,), apply(f, a, line=4)), apply(f, X)), X)
    ping = Function((a,), apply(GlobalVar("pong"), a, line=4))
    pong = Function((b := Var("b"),), apply(GlobalVar("ping"), b, line=4))
    return module(apply(GlobalVar("ping"), X), X, ping=ping, pong=pong)


@pytest.mark.parametrize("name", ["local", "mutual"])
def test_a_function_that_calls_itself_is_refused(name: str) -> None:
    with pytest.raises(RelayError, match="calls itself in line 4"):
        convert(_recursive(name))


WRONG: dict[str, tuple[Callable[[], Module], str]] = {
    "no main": (lambda: Module({"f": doubled()}), "no function @main; it has: @f"),
    "no type": (lambda: module(a := Var("a"), a), "'a' of @main is not a tensor of known type"),
    "no constant": (
        lambda: module(If(call("less", X, Y), X, Y), X, Y), "only when the network runs"
    ),
    "a function": (lambda: module(doubled(), X), "The result of @main is a function"),
    "given a function": (lambda: module(call("exp", doubled()), X), "exp is given a function"),
    "not a function": (lambda: module(apply(X, X, line=2), X), "is called in line 2"),
    "not defined": (lambda: module(call("exp", Y), X), "%y is used where it is not defined"),
    "no such function": (lambda: module(apply(GlobalVar("f"), X), X), "@f is called"),
    "an operator": (
        lambda: module(Tuple((call("exp", X).callee,)), X), "exp is used as a value"
    ),
    "arguments of a function": (
        lambda: module(apply(doubled(), X, X, line=3), X), "takes 1 arguments, but is given 2 in"
    ),
    "no tuple": (lambda: module(TupleGetItem(X, 0), X), "of something that is not a tuple"),
    "a short tuple": (lambda: module(TupleGetItem(Tuple((X,)), 1), X), "taken of a tuple of 1"),
    "arguments": (lambda: module(call("exp", X, X, line=7), X), r"exp \(line 7\) takes 1 argum"),
    "a tuple": (lambda: module(call("exp", Tuple((X,))), X), "takes tensors, but is given a tuple"),
    "a tensor": (lambda: module(call("stack", X), X), "takes a tuple of tensors"),
    "attribute": (
        lambda: module(call("nn.softmax", X, axes=1, line=5), X),
        r"nn.softmax \(line 5\) has no attribute axes; it has: axis",
    ),
    "no attribute": (lambda: module(call("tile", X), X), "needs the attribute reps"),
    "sizes": (lambda: module(call("nn.matmul", X, X, line=5), X), r"nn.matmul \(line 5\) cannot"),
    "wrong value": (lambda: module(call("nn.relu6", X), X), "nn.relu6"),
    "type": (
        lambda: module(Call(call("exp", X).callee, (X,), type=TensorType((3, 2)), line=6), X),
        r"\(line 6\) gives float32 \[2, 3\], but is annotated as float32 \[3, 2\]",
    ),
    "type of several": (
        lambda: module(
            TupleGetItem(Call(call("exp", X).callee, (X,), type=TupleType(())), 0), X
        ),
        "does not give as many results",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    make, message = WRONG[name]
    with pytest.raises(RelayError, match=message):
        convert(make())
    assert capfd.readouterr().err == ""  # TVM warns of functions that are left half-written


IMAGE = variable("image", rand(1, 4, 6, 6))
WEIGHTS = variable("weights", rand(2, 4, 3, 3))
REFUSED = {
    "kernel": (call("nn.conv2d", IMAGE, WEIGHTS), {"kernel_size": (5, 5)}, "a kernel of .3, 3."),
    "channels": (call("nn.conv2d", IMAGE, WEIGHTS), {"channels": 5}, "but weights for 2"),
    "units": (call("nn.dense", X, Y), {"units": 5}, "has units=5, but weights for 2"),
    "type": (call("nn.conv2d", IMAGE, WEIGHTS), {"strides": "x"}, "converted: Mismatched type on"),
    "rank": (call("nn.max_pool2d", X), {"pool_size": 2}, "has the layout 'NCHW', but its arg"),
    "axis": (call("nn.softmax", X), {"axis": 2}, "cannot be converted"),
    "bias": (call("nn.bias_add", X, Y), {"axis": 1}, "needs a vector, but is given a tensor of"),
    "weights": (call("nn.conv2d", IMAGE, X), {}, "'OIHW', but its argument is .2, 3."),
    "bias axis": (call("nn.bias_add", X, Y), {"axis": 3}, "has axis 3"),
    "padding": (
        call("nn.max_pool2d", IMAGE), {"pool_size": (2, 2), "padding": (1, 2, 3)}, "padding="
    ),
    "layout": (call("nn.max_pool2d", IMAGE), {"pool_size": 2, "layout": "NC4h"}, "layout"),
    "no layout": (
        call("layout_transform", IMAGE), {"src_layout": "NCHW", "dst_layout": "N!"}, "invalid"
    ),
    "other axes": (
        call("layout_transform", IMAGE), {"src_layout": "NCHW", "dst_layout": "NCW"}, "cannot go"
    ),
    "parts": (
        call("layout_transform", IMAGE),
        {"src_layout": "NCHW", "dst_layout": "NCHW3c"},
        "divides 4 into parts of 3",
    ),
    "window": (
        call("nn.avg_pool2d", IMAGE),
        {
            "pool_size": (2, 2), "strides": (3, 3), "padding": (0, 0, 2, 2), "ceil_mode": True,
            "count_include_pad": True,
        },
        "window that lies in the padding",
    ),
    "reshape": (call("reshape", X), {"newshape": (4, -1)}, r"cannot give shape \[4, -1\]"),
    "reshape beyond": (call("reshape", X), {"newshape": (0, 0, 0)}, "more axes than there are"),
    "reshape divided": (call("reshape", X), {"newshape": (-4, 2)}, "needs two sizes behind it"),
    "squeeze": (call("squeeze", X), {"axis": (0,)}, "which are not all 1"),
    "split": (call("split", X), {"indices_or_sections": 2, "axis": 1}, "cannot divide 3 into 2"),
    "batch_dims": (call("take", X, Y), {"axis": 1, "batch_dims": 1}, "has batch_dims=1"),
    "reduction": (
        call("scatter_elements", X, Y, X), {"reduction": "xor"}, "has reduction 'xor'; there are"
    ),
    "mode of scatter": (call("scatter_nd", X, Y, X), {"mode": "xor"}, "has mode 'xor'"),
    "mode of pad": (
        call("nn.pad", X, number(0)), {"pad_width": ((0, 0),) * 2, "pad_mode": "x"}, "pad_mode 'x'"
    ),
    "width": (call("nn.pad", X, number(0)), {"pad_width": ((-1, 0), (0, 0))}, "two non-negative"),
    "value": (call("nn.pad", X, Y), {"pad_width": ((1, 0), (0, 0))}, "needs pad_value as one"),
    "mirror": (call("nn.mirror_pad", X), {"pad_width": ((3, 0), (0, 0))}, "which is too much"),
    "mode of mirror": (
        call("nn.mirror_pad", X), {"pad_width": ((1, 0), (0, 0)), "mode": "x"}, "has mode 'x'"
    ),
    "blocks": (call("nn.depth_to_space", IMAGE), {"block_size": 2, "mode": "x"}, "mode 'x'"),
    "mask": (call("sequence_mask", X, Y), {"axis": 2}, "has axis 2"),
    "exclude": (call("sum", X), {"exclude": True}, "excludes axes, but names none"),
    "nothing": (call("argmax", X), {"axis": (0, 1), "exclude": True}, "reduces no axis"),
    "shape": (call("unravel_index", X, Y), {}, "needs its shape as a constant"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_operator_does_not_do_is_refused(name: str) -> None:
    written, attributes, message = REFUSED[name]
    refused = Call(written.callee, written.args, attributes, line=8)
    with pytest.raises(RelayError, match=rf"{written.callee.name} \(line 8\) .*{message}"):
        convert(module(refused, X, Y, IMAGE, WEIGHTS))
