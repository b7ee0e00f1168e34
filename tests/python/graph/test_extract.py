# SPDX-License-Identifier: Apache-2.0
"""The operator graph of a function: which operations become one operator, and what is refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import tvm
from tvm import relax

from support.networks import (
    NATIVE,
    add_function,
    check_scheduled,
    constant,
    conv,
    few_stages,
    relax_module,
)
from tvm_ios.compiler.check import check_schedule
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ModelError, ScheduleError
from tvm_ios.graph.extract import extract
from tvm_ios.graph.fingerprint import fingerprint
from tvm_ios.graph.operators import OperatorGraph
from tvm_ios.rewrite.prepare import prepare

IMAGE = (1, 20, 6, 6)
op = relax.op


def graph_of(mod: tvm.IRModule, function: str = "main") -> OperatorGraph:
    return extract(prepare(mod, function), function)


def shapes_of(graph: OperatorGraph) -> list[tuple[str, tuple[str, ...]]]:
    """Per operator its kind and the steps after its anchor."""
    return [(o.kind, tuple(step.op for step in o.epilogue.steps)) for o in graph.operators]


def check(mod: tvm.IRModule, *expected: tuple[str, tuple[str, ...]]) -> OperatorGraph:
    """The module has these operators, and scheduling it changes no result."""
    graph = graph_of(mod)
    assert shapes_of(graph) == list(expected)
    check_scheduled(mod)
    return graph


def test_elementwise_operations_join_the_operation_before_them() -> None:
    def body(emit, x):
        value = emit(op.add(emit(conv(x, 24)), constant(1, 24, 1, 1)))
        return emit(op.nn.max_pool2d(emit(op.nn.relu(value)), pool_size=(2, 2)))

    graph = check(relax_module(body, IMAGE), ("conv2d", ("add", "relu")), ("max_pool2d", ()))
    assert graph.edges == ((0, 1),)
    assert graph.operators[0].epilogue.arguments == ("channel",)


def test_a_value_may_be_read_twice_inside_an_operator() -> None:
    def body(emit, x):
        value = emit(conv(x, 24))
        return emit(op.multiply(value, emit(op.sigmoid(value))))

    check(relax_module(body, IMAGE), ("conv2d", ("sigmoid", "multiply")))


def test_a_residual_addition_joins_the_later_of_its_producers() -> None:
    def body(emit, x):
        first = emit(conv(x, 20))
        second = emit(conv(first, 20, seed=1))
        return emit(op.nn.relu(emit(op.add(first, second))))

    graph = check(relax_module(body, IMAGE), ("conv2d", ()), ("conv2d", ("add", "relu")))
    assert graph.edges == ((0, 1),)
    assert graph.operators[1].epilogue.arguments == ("full",)


def test_two_branches_are_added_by_the_later_one() -> None:
    def body(emit, x):
        first, second = emit(conv(x, 20)), emit(conv(x, 20, 1, seed=1))
        return emit(op.add(second, first))

    graph = check(relax_module(body, IMAGE), ("conv2d", ()), ("conv2d", ("add",)))
    assert graph.edges == ((0, 1),)


def test_an_operand_that_is_computed_later_is_waited_for_by_an_operator_of_its_own() -> None:
    def body(emit, x):
        left = emit(conv(x, 20))
        right = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        pooled = emit(op.nn.avg_pool2d(right, (3, 3), padding=1))
        return emit(op.subtract(pooled, emit(op.tanh(left))))

    graph = graph_of(relax_module(body, IMAGE))
    assert sorted(o.kind for o in graph.operators) == ["avg_pool2d", "conv2d", "max_pool2d"]
    check_scheduled(relax_module(body, IMAGE))


def test_a_part_of_a_split_may_be_taken_late() -> None:
    """Parts along the last axis are taken from the split where they are first read."""

    def body(emit, x):
        parts = emit(op.split(x, 2, axis=3))
        first = emit(op.tanh(emit(relax.TupleGetItem(parts, 1))))
        pooled = emit(op.nn.max_pool2d(first, (2, 2)))
        return emit(op.subtract(pooled, emit(op.mean(relax.TupleGetItem(parts, 0)))))

    mod = relax_module(body, IMAGE)
    graph = extract(mod)
    assert all(u < v for u, v in graph.edges)
    assert graph.operators[0].kind == "split"
    check_scheduled(mod)


def test_an_intermediate_that_is_returned_ends_the_operator() -> None:
    def body(emit, x):
        value = emit(op.add(emit(conv(x, 20)), constant(1, 20, 1, 1)))
        return relax.Tuple([emit(op.nn.relu(value)), value])

    mod = relax_module(body, IMAGE)
    kinds = [kind for kind in shapes_of(graph_of(mod)) if kind[0] != "tuple"]
    assert kinds == [("conv2d", ("add",)), ("elementwise", ("relu",))]
    check_scheduled(mod)


def test_an_intermediate_that_another_reads_ends_the_operator() -> None:
    def body(emit, x):
        value = emit(op.nn.relu(emit(conv(x, 20))))
        left, right = emit(op.exp(value)), emit(op.nn.avg_pool2d(value, (3, 3), padding=1))
        return emit(op.multiply(left, right))

    graph = graph_of(relax_module(body, IMAGE))
    assert graph.operators[0].epilogue.steps[0].op == "relu"
    assert len(graph.operators[0].epilogue.steps) == 1
    check_scheduled(relax_module(body, IMAGE))


@pytest.mark.parametrize("shape", [(1, 1, 6, 6), (1, 20, 6, 1), (6,), (1, 20, 1, 6)])
def test_a_broadcast_that_no_kernel_knows_is_not_fused(shape: tuple[int, ...]) -> None:
    def body(emit, x, y):
        return emit(op.nn.relu(emit(op.add(emit(conv(x, 20)), y))))

    mod = relax_module(body, IMAGE, shape)
    assert shapes_of(graph_of(mod))[0] == ("conv2d", ())
    check_scheduled(mod)


@pytest.mark.parametrize("shape", [(1, 20, 1, 1), (20, 1, 1), IMAGE, (1,), (1, 1, 1, 1)])
def test_broadcasts_of_values_known_at_run_time(shape: tuple[int, ...]) -> None:
    def body(emit, x, y):
        return emit(op.nn.relu(emit(op.subtract(y, emit(conv(x, 20))))))

    check_scheduled(relax_module(body, IMAGE, shape))


def test_an_operation_that_widens_its_operand_is_an_operator_of_its_own() -> None:
    def body(emit, x, y):
        pooled = emit(op.nn.adaptive_avg_pool2d(x, (1, 1)))
        return emit(op.multiply(pooled, y))

    mod = relax_module(body, IMAGE, IMAGE)
    assert [kind for kind, _ in shapes_of(graph_of(mod))] == ["adaptive_avg_pool2d", "elementwise"]
    check_scheduled(mod)


def test_elementwise_operations_without_an_anchor() -> None:
    def body(emit, x, y):
        return emit(op.tanh(emit(op.multiply(emit(op.exp(x)), y))))

    graph = check(relax_module(body, (4, 7), (4, 7)), ("elementwise", ("exp", "multiply", "tanh")))
    assert graph.operators[0].anchor is None


def test_an_operand_that_is_both_sides() -> None:
    check(relax_module(lambda emit, x: emit(op.add(x, x)), (4, 7)), ("elementwise", ("add",)))
    check(
        relax_module(lambda emit, x: emit(op.subtract(relax.const(1.5), x)), (4, 7)),
        ("elementwise", ("subtract",)),
    )


def test_operators_of_other_types_are_not_elementwise_steps() -> None:
    def body(emit, x):
        return emit(op.add(emit(op.multiply(x, x)), x))

    mod = relax_module(body, relax.TensorType((4, 7), "int32"))
    assert [kind for kind, _ in shapes_of(graph_of(mod))] == ["multiply", "add"]
    check_scheduled(mod)


def test_a_long_chain_is_cut() -> None:
    def body(emit, x):
        for _ in range(80):
            x = emit(op.tanh(x))
        return x

    mod = relax_module(body, (4, 7))
    lengths = [len(o.epilogue.steps) for o in graph_of(mod).operators]
    assert sum(lengths) == 80
    assert max(lengths) < 80
    check_scheduled(mod)


def test_fingerprints_know_shapes_and_wiring_but_not_weights() -> None:
    def network(seed: int = 0, size: int = 6, joined: bool = True) -> str:
        def body(emit, x):
            left = emit(conv(x, 20, seed=seed))
            right = emit(conv(left if joined else x, 20, seed=seed + 1))
            return emit(op.concat([left, right], axis=1))

        return fingerprint(graph_of(relax_module(body, (1, 20, size, size))))

    assert network() == network(seed=7)
    assert len({network(), network(size=8), network(joined=False)}) == 3


def wired(order: str, part: int = 0, low: float = 0.0, swapped: bool = False) -> OperatorGraph:
    """Poolings and slices of an image, concatenated in the order of their letters."""

    def body(emit, x, y):
        x, y = (y, x) if swapped else (x, y)
        halves = emit(op.split(emit(op.subtract(x, y)), 2, axis=1))
        values = {
            "a": emit(op.nn.max_pool2d(x, (3, 3), padding=1)),
            "b": emit(op.nn.max_pool2d(y, (3, 3), padding=1)),
            "c": emit(op.clip(emit(relax.TupleGetItem(halves, part)), low, 6.0)),
        }
        return emit(op.concat([values[letter] for letter in order], axis=1))

    return graph_of(relax_module(body, (1, 4, 6, 6), (1, 4, 6, 6)))


def test_fingerprints_know_which_operand_is_where() -> None:
    """Neither the order of operands, nor how often one is read, nor which part, is left out."""
    different = [
        wired("abc"), wired("bac"), wired("cab"), wired("abca"), wired("aabc"),
        wired("abc", part=1), wired("abc", low=1.0),
    ]  # fmt: skip
    assert len({fingerprint(graph) for graph in different}) == len(different)
    assert fingerprint(wired("abc")) == fingerprint(wired("abc"))


def test_schedules_of_the_first_fingerprint_are_still_applied() -> None:
    """It is without a version; another network's is refused."""
    mod = relax_module(lambda emit, x: emit(conv(x, 20)), IMAGE)
    found = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).search()
    assert found.model.startswith("2:")
    graph = graph_of(mod)
    text = "\n".join(o.signature for o in graph.operators)
    first = hashlib.sha256(text.encode()).hexdigest()[:32]
    check_schedule(replace(found, model=first), graph)
    for other in ("0" * 32, "2:" + first, "3:" + first):
        with pytest.raises(ScheduleError, match="another model"):
            check_schedule(replace(found, model=other), graph)


def test_only_the_named_function_is_scheduled() -> None:
    builder = relax.BlockBuilder()
    add_function(builder, "first", lambda emit, x: emit(op.nn.relu(emit(conv(x, 20)))), IMAGE)
    add_function(builder, "second", lambda emit, x: emit(op.tanh(emit(conv(x, 24)))), IMAGE)
    mod = builder.get()
    scheduled = check_scheduled(mod, function="second")
    assert "call_dps_packed" in scheduled["second"].script()
    assert "call_dps_packed" not in scheduled["first"].script()
    with pytest.raises(ModelError, match="'main'; it has: first, second"):
        graph_of(mod)


def test_a_function_that_computes_nothing() -> None:
    x = relax.Var("x", relax.TensorType((4, 7), "float32"))
    function = relax.Function([x], relax.SeqExpr([], x), x.ty)
    with pytest.raises(ModelError, match="'main' computes nothing"):
        extract(tvm.IRModule({"main": function}))


@pytest.mark.parametrize("known", [True, False])
def test_a_dynamic_shape_is_named_with_its_dimension(known: bool) -> None:
    batch = tvm.tirx.Var("n", "int64")
    ty = relax.TensorType((4, batch, 7), "float32") if known else relax.TensorType(None, "float32")
    mod = relax_module(lambda emit, x: emit(op.nn.relu(x)), ty)
    message = r"Dimension 1 of input 'x0' is dynamic \(n\).*--input-shapes"
    with pytest.raises(ModelError, match=message if known else "input 'x0' has no known shape"):
        graph_of(mod)


def test_a_dynamic_shape_inside_a_tuple() -> None:
    field = relax.TensorType((tvm.tirx.Var("n", "int64"), 4), "float32")
    mod = relax_module(
        lambda emit, x: emit(op.nn.relu(emit(relax.TupleGetItem(x, 0)))), relax.TupleType([field])
    )
    with pytest.raises(ModelError, match=r"Dimension 0 of input 'x0\[0\]' is dynamic"):
        graph_of(mod)


def test_an_input_that_is_no_tensor() -> None:
    mod = relax_module(lambda emit, x, _s: emit(op.nn.relu(x)), (4, 7), relax.ShapeType(ndim=2))
    with pytest.raises(ModelError, match=r"Input 'x1' is R\.Shape.*, but inputs must be tensors"):
        graph_of(mod)
