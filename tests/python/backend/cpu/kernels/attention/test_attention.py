# SPDX-License-Identifier: Apache-2.0
"""Attention: any number of queries, keys and columns, with and without a bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.attentions import BF16_SIZES, SIZES, Sizes, attended, check_bf16_dot2, tensors
from support.networks import NATIVE, TARGETS, assert_close, isa_of, run_kernel
from tvm_ios.backend.cpu.isa.bfloat16 import exact, nearest
from tvm_ios.backend.cpu.kernels.attention.attention import attention_kernel, pack_bias
from tvm_ios.backend.cpu.kernels.attention.strip import Attention, Bias
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.target import resolve

STEPS = (
    Step("multiply", (Operand("value", 0), Operand("argument", 0))),
    Step("add", (Operand("value", 1), Operand("argument", 1))),
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_attention(sizes: Sizes, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    inputs = tensors(sizes)
    kernel = attention_kernel(Attention(*sizes, scale=0.3), core)
    (output,) = run_kernel(kernel, inputs, target)
    assert_close(output, attended(*inputs, 0.3), 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", BF16_SIZES.values(), ids=BF16_SIZES)
def test_bf16_dot2(sizes: Sizes, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    check_bf16_dot2(sizes, target, replace(core, bf16_dot2=None), result=False)


@pytest.mark.parametrize("sizes", BF16_SIZES.values(), ids=BF16_SIZES)
def test_bf16_dot2_by_instructions(sizes: Sizes) -> None:
    core, _ = isa_of(NATIVE)
    if core.bf16_dot2 is None:
        pytest.skip("this machine does not run bfloat16")
    check_bf16_dot2(sizes, NATIVE, core, result=True)


def test_scores_of_bf16_dot2_are_exact() -> None:
    """Only exponentials are rounded: with one key that counts, the answer is its value."""
    target, sizes = resolve("llvm"), Sizes(1, 1, 3, 7, 4, 9)
    core, _ = isa_of(target)
    query, key, value = (exact(nearest(tensor)) for tensor in tensors(sizes))
    bias = np.full((1, 1, 1, 7), -np.inf, "float32")
    bias[..., 4] = 0.5
    attention = Attention(*sizes, scale=0.3, bias=Bias(1, 1, of_queries=False))
    kernel = attention_kernel(attention, replace(core, bf16_dot2=None), "pairs")
    (output,) = run_kernel(kernel, [*map(nearest, (query, key, value)), bias], target)
    np.testing.assert_array_equal(output[0, :, 0], np.broadcast_to(value[0, 4, 0], (3, 9)))


BIASES = {
    "keys": ((2, 1, 1, 53), False),
    "keys of heads": ((1, 3, 1, 53), False),
    "queries": ((1, 1, 37, 53), True),
    "queries of images and heads": ((2, 3, 37, 53), True),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("shape", "of_queries"), BIASES.values(), ids=BIASES)
def test_a_bias_and_an_epilogue(shape, of_queries: bool, target: tvm.target.Target) -> None:
    """Some keys are hidden from all, or from all but one query."""
    core, _ = isa_of(target)
    sizes, random = SIZES["odd"], np.random.default_rng(1)
    bias = 3 * random.standard_normal(shape).astype("float32")
    bias[..., :5] = -np.inf
    inputs = tensors(sizes)
    factor = random.standard_normal((2, 37, 3, 19)).astype("float32")
    offset = random.standard_normal(19).astype("float32")
    attention = Attention(
        *sizes,
        scale=0.2,
        bias=Bias(shape[0], shape[1], of_queries),
        epilogue=Epilogue(STEPS, ("full", "last")),
    )
    kernel = attention_kernel(attention, core)
    packed = pack_bias(bias, core.lanes) if of_queries else bias
    (output,) = run_kernel(kernel, [*inputs, packed, factor, offset], target)
    assert_close(output, attended(*inputs, 0.2, bias) * factor + offset, 1e-5)


def test_scores_that_overflow_are_nan_and_the_others_are_exact() -> None:
    """As those of a softmax of their own."""
    target = resolve("llvm")
    core, _ = isa_of(target)
    sizes = Sizes(1, 1, 20, 600, 4, 4)
    query, key, value = tensors(sizes)
    query[0, 3] = 1e30
    key[0, 7] = 1e30
    kernel = attention_kernel(Attention(*sizes, scale=1.0), core)
    (output,) = run_kernel(kernel, [query, key, value], target)
    others = [row for row in range(20) if row != 3]
    assert np.isnan(output[0, 3]).all()
    with np.errstate(over="ignore"):
        assert_close(output[:, others], attended(query, key, value, 1.0)[:, others], 1e-5)


def hidden(queries: int, keys: int, mask: str) -> np.ndarray:
    """What a causal mask adds."""
    after = 0 if mask == "TopLeft" else abs(queries - keys)
    return np.where(np.tril(np.ones((queries, keys)), after), 0.0, -np.inf)


RELAX = {
    "plain": ((), False, None, None),
    "scaled": ((), False, 0.7, None),
    "bias of keys": ((2, 1, 1, 40), False, None, None),
    "constant bias": ((1, 3, 30, 40), True, None, None),
    "constant bias of keys": ((2, 1, 1, 40), True, None, None),
    "causal": ((), False, None, "TopLeft"),
    "causal, to the last key": ((), False, None, "BottomRight"),
    "causal, and a constant bias": ((1, 1, 30, 40), True, None, "TopLeft"),
    "computed bias of queries": ((1, 1, 30, 40), False, None, None),
    "causal, and a bias": ((2, 1, 1, 40), False, None, "TopLeft"),
}
WITHOUT_A_RULE = ("computed bias of queries", "causal, and a bias")


@pytest.mark.parametrize("name", RELAX)
def test_relaxs_attention(name: str) -> None:
    shape, constant, scale, mask = RELAX[name]
    sizes = Sizes(2, 3, 30, 40, 16, 24)
    arrays, random = tensors(sizes), np.random.default_rng(2)
    bias = random.standard_normal(shape).astype("float32") if shape else None
    if bias is not None and not constant:
        arrays.append(bias)
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{i}", relax.TensorType(array.shape, "float32"))
        for i, array in enumerate(arrays)
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            added = None if bias is None else relax.const(bias) if constant else inputs[3]
            number = None if scale is None else tvm.tirx.FloatImm("float32", scale)
            call = relax.op.nn.attention(*inputs[:3], added, number, mask)
            result = builder.emit_output(builder.emit(call))
        builder.emit_func_output(result)
    scheduler = Scheduler.prepare(builder.get(), resolve("llvm"))
    (implementation,) = scheduler.stage_builder.lowered.implementations
    assert (implementation.kernel.name == "attention") == (name not in WITHOUT_A_RULE)

    output = tvm_ios.compile(builder.get(), search=False)(*arrays)
    total = (0.0 if bias is None else bias) + (0.0 if mask is None else hidden(30, 40, mask))
    assert_close(output, attended(*arrays[:3], scale or 0.25, total), 1e-5)
