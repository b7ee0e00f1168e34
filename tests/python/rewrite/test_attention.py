# SPDX-License-Identifier: Apache-2.0
"""Products and a softmax become an attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from tvm_ios.relax_ir.expressions import op_name
from tvm_ios.rewrite.prepare import prepare

op = relax.op
Build = Callable[..., relax.Expr]

BATCH, HEADS, QUERIES, KEYS, DEPTH, COLUMNS = 2, 3, 9, 11, 8, 5
ROWS = ((BATCH, QUERIES, HEADS, DEPTH), (BATCH, KEYS, HEADS, DEPTH), (BATCH, KEYS, HEADS, COLUMNS))
MATRICES = ((6, QUERIES, DEPTH), (6, KEYS, DEPTH), (6, KEYS, COLUMNS))
RNG = np.random.default_rng(0)


def composed(
    query: relax.Expr,
    key: relax.Expr,
    value: relax.Expr,
    bias: relax.Expr | None = None,
    factor: float = 0.3,
    axis: int = -1,
) -> relax.Expr:
    """An attention of matrices, whose keys are transposed."""
    scores = op.multiply(op.matmul(query, key), relax.const(factor))
    if bias is not None:
        scores = op.add(scores, bias)
    return op.matmul(op.nn.softmax(scores, axis), value)


def heads(x: relax.Expr, *, transposed: bool = False) -> relax.Expr:
    return op.permute_dims(x, (0, 2, 3, 1) if transposed else (0, 2, 1, 3))


def permuted(*operands: relax.Expr, **options: object) -> relax.Expr:
    query, key, value, *bias = operands
    matrices = heads(query), heads(key, transposed=True), heads(value)
    return heads(composed(*matrices, *bias, **options))


def in_two_steps(query: relax.Expr, key: relax.Expr, value: relax.Expr) -> relax.Expr:
    transposed = op.permute_dims(heads(key), (0, 1, 3, 2))
    return heads(composed(heads(query), transposed, heads(value)))


def scaled_before(query: relax.Expr, key: relax.Expr, value: relax.Expr) -> relax.Expr:
    root = relax.const(np.float32(0.5))
    query, key = (op.multiply(x, root) for x in (heads(query), heads(key, transposed=True)))
    return heads(op.matmul(op.nn.softmax(op.matmul(query, key)), heads(value)))


def shown_zero(*operands: relax.Expr, bias: np.ndarray) -> relax.Expr:
    """As PyTorch computes a masked attention: zeros where all keys of a query are hidden."""
    query, key, value = operands
    scores = op.add(op.matmul(query, op.permute_dims(key, (0, 2, 1))), relax.const(bias))
    largest = op.max(scores, axis=-1, keepdims=True)
    hidden = op.equal(largest, relax.const(np.float32(-np.inf)))
    weights = op.where(hidden, relax.const(np.float32(0)), op.nn.softmax(scores))
    return op.matmul(weights, value)


def guarded(*operands: relax.Expr, scores: Build = lambda x: x) -> relax.Expr:
    """As PyTorch exports a masked attention: zeros instead of weights that are NaN."""
    query, key, value, *bias = operands
    products = op.matmul(query, op.permute_dims(key, (0, 2, 1)))
    weights = op.nn.softmax(op.add(products, scores(*bias)) if bias else products)
    defined = op.where(op.isnan(weights), relax.const(np.float32(0)), weights)
    return op.matmul(defined, value)


def lowest(shown: relax.Expr) -> relax.Expr:
    values = (relax.const(np.float32(number)) for number in (0, -3.4e38))
    return op.where(op.greater(shown, relax.const(np.float32(0))), *values)


def mask(*, hidden_query: bool) -> np.ndarray:
    bias = np.where(RNG.random((QUERIES, KEYS)) > 0.5, 0, -np.inf).astype("float32")
    bias[:, 0] = 0
    bias[3] = -np.inf if hidden_query else bias[3]
    return bias


def of_matrices(*operands: relax.Expr) -> relax.Expr:
    query, key, *others = operands
    rank = len(key.ty.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return composed(query, op.permute_dims(key, swapped), *others)


def constant(*shape: int, images: int = 1) -> relax.Expr:
    numbers = RNG.standard_normal(shape).astype("float32")
    return relax.const(np.concatenate([numbers] * images))


class Case(NamedTuple):
    """What is composed of which inputs, and how many permutations are left."""

    build: Build
    shapes: tuple[tuple[int, ...], ...]
    left: int = 0


FOUR = tuple((2, 3, *shape[1:]) for shape in MATRICES)
RAISED = {
    "permuted": Case(permuted, ROWS),
    "permuted in two steps": Case(in_two_steps, ROWS),
    "scaled before": Case(scaled_before, ROWS),
    "bias of keys": Case(permuted, (*ROWS, (2, 1, 1, KEYS))),
    "bias of few axes": Case(permuted, (*ROWS, (KEYS,))),
    "constant bias": Case(lambda *x: permuted(*x, constant(3, QUERIES, KEYS)), ROWS),
    "matrices": Case(of_matrices, MATRICES),
    "matrices of two axes": Case(of_matrices, FOUR),
    "matrices, bias of keys": Case(of_matrices, (*MATRICES, (6, 1, KEYS))),
    "matrices, constant bias": Case(
        lambda *x: of_matrices(*x, constant(1, 1, QUERIES, KEYS)), FOUR
    ),
    "matrices, a constant bias for each image": Case(
        lambda *x: of_matrices(*x, constant(1, 1, QUERIES, KEYS, images=2)), FOUR
    ),
    "constant bias that shows each query a key": Case(
        partial(shown_zero, bias=mask(hidden_query=False)), MATRICES
    ),
    "guarded": Case(guarded, MATRICES),
    "guarded, a bias of two numbers": Case(
        partial(guarded, scores=lowest), (*MATRICES, (6, 1, KEYS))
    ),
    "guarded, a constant bias": Case(lambda *x: guarded(*x, constant(1, QUERIES, KEYS)), MATRICES),
    "keys that are transposed already": Case(
        composed, (MATRICES[0], (6, DEPTH, KEYS), MATRICES[2]), left=1
    ),
    "queries of another order": Case(
        lambda q, k, v: composed(op.permute_dims(q, (2, 0, 1)), op.permute_dims(k, (0, 2, 1)), v),
        ((QUERIES, DEPTH, 6), *MATRICES[1:]),
        left=1,
    ),
}


SQUARE = ((6, KEYS, DEPTH), (6, KEYS, DEPTH), (6, KEYS, COLUMNS))
STAYING = {
    "softmax of queries": Case(
        lambda q, k, v: composed(q, op.permute_dims(k, (0, 2, 1)), v, axis=1), SQUARE
    ),
    "bias of queries": Case(permuted, (*ROWS, (1, 1, QUERIES, KEYS))),
    "bias of some images": Case(of_matrices, (*FOUR, (1, 3, 1, KEYS))),
    "bias of all keys": Case(of_matrices, (*MATRICES, (6, QUERIES, 1))),
    "several factors": Case(
        lambda q, k, v: composed(op.multiply(q, constant(DEPTH)), op.permute_dims(k, (0, 2, 1)), v),
        MATRICES,
    ),
    "shared keys": Case(of_matrices, (FOUR[0], (1, *FOUR[1][1:]), (1, *FOUR[2][1:]))),
    "guarded, any bias": Case(guarded, (*MATRICES, (6, 1, KEYS))),
    "guarded, a bias that hides": Case(
        lambda *x: guarded(*x, relax.const(mask(hidden_query=False))), MATRICES
    ),
    "large heads": Case(of_matrices, ((1, 4, 513), (1, 5, 513), (1, 5, 3))),
}


def module(case: Case) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{i}", relax.TensorType(shape, "float32"))
        for i, shape in enumerate(case.shapes)
    ]
    with builder.function("main", inputs):
        builder.emit_func_output(builder.normalize(case.build(*inputs)))
    return builder.get()


def operators(mod: tvm.IRModule, depth: int) -> list[str]:
    names: list[str] = []
    func = prepare(mod, attention_depth=depth)["main"]
    relax.analysis.post_order_visit(func, lambda expr: names.append(op_name(expr)))
    return [name for name in names if name not in ("", "reshape", "greater", "where")]


def assert_as_tvm(mod: tvm.IRModule, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [RNG.standard_normal(shape).astype("float32") for shape in shapes]
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    expected = machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    output = tvm_ios.compile(mod, search=False)(*arrays)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", RAISED)
def test_an_attention_is_one_operator(name: str) -> None:
    case = RAISED[name]
    mod = module(case)
    attention = "nn.attention_bias" if "bias" in name else "nn.attention"
    assert sorted(operators(mod, 512)) == [attention, *["permute_dims"] * case.left]
    assert_as_tvm(mod, case.shapes)


@pytest.mark.parametrize("case", STAYING.values(), ids=STAYING)
def test_what_only_looks_like_an_attention_stays(case: Case) -> None:
    mod = module(case)
    assert operators(mod, 512).count("matmul") == 2
    assert_as_tvm(mod, case.shapes)


def test_zeros_for_a_query_that_all_keys_are_hidden_from() -> None:
    """TVM's own maximum of numbers that are all minus infinity is finite."""
    mod = module(Case(partial(shown_zero, bias=mask(hidden_query=True)), MATRICES))
    assert operators(mod, 512).count("matmul") == 2
    arrays = [RNG.standard_normal(shape).astype("float32") for shape in MATRICES]
    output = tvm_ios.compile(mod, search=False)(*arrays)
    assert (output[:, 3] == 0).all()
    assert np.isfinite(output).all()


def test_back_ends_without_a_kernel_keep_the_products() -> None:
    assert operators(module(RAISED["permuted"]), 0).count("matmul") == 2
