# SPDX-License-Identifier: Apache-2.0
"""Layer normalisation of the channels of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import (
    NATIVE,
    TARGETS,
    assert_close,
    check_scheduled,
    constant,
    conv,
    few_stages,
    isa_of,
    poisoned,
    relax_module,
    run_kernel,
    unpack,
)
from tvm_ios.backend.cpu.kernels.maps.channel_norm import ChannelNorm, channel_norm_kernel
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.epilogue import Epilogue, Operand, Step

op = relax.op

Emit = Callable[[relax.Expr], relax.Var]

STEPS = (
    Step("multiply", (Operand("value", 0), Operand("argument", 0))),
    Step("add", (Operand("value", 1), Operand("argument", 1))),
)
LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("channels", "pixels"), [(40, 63), (17, 6), (3, 1), (96, 35), (64, 10), (1, 9)]
)
def test_channel_norm(channels: int, pixels: int, target: tvm.target.Target) -> None:
    """Of numbers whose mean is large beside their variance, and differs between pixels."""
    core, layout = isa_of(target)
    random = np.random.default_rng(0)
    shape, each = (2, channels, pixels, 1), (1, channels, 1, 1)
    data = random.standard_normal(shape) + 100 + random.standard_normal((2, 1, pixels, 1))
    data, residual = data.astype("float32"), random.standard_normal(shape).astype("float32")
    gamma, beta, other = (random.standard_normal(each).astype("float32") for _ in range(3))
    norm = ChannelNorm(2, channels, pixels, 1e-3, Epilogue(STEPS, ("full", "channel")))
    kernel = channel_norm_kernel(norm, layout, core)
    maps = [poisoned(layout, data), *map(layout.pack, (gamma, beta))]
    inputs = [*maps, poisoned(layout, residual), layout.pack(other)]
    (output,) = run_kernel(kernel, inputs, target)
    exact = data.astype("float64")
    mean, variance = exact.mean(1, keepdims=True), exact.var(1, keepdims=True)
    expected = ((exact - mean) / np.sqrt(variance + 1e-3) * gamma + beta) * residual + other
    assert_close(unpack(output, shape), expected.astype("float32"), relative=1e-4)


def normalised(
    emit: Emit, x: relax.Var, there: Sequence[int], back: Sequence[int], axes: Sequence[int]
) -> relax.Var:
    permuted = emit(op.permute_dims(x, there))
    sizes = [int(permuted.ty.shape.values[axis]) for axis in axes]
    factors = constant(*sizes), constant(*sizes, seed=1)
    return emit(op.permute_dims(emit(op.nn.layer_norm(permuted, *factors, axes)), back))


def kinds(mod: tvm.IRModule) -> list[str]:
    return [op.kind for op in Scheduler.prepare(mod, NATIVE, cost_model=few_stages).graph.operators]


@pytest.mark.parametrize("axis", [3, -1])
def test_between_permutations(axis: int, caplog: pytest.LogCaptureFixture) -> None:
    """Feature maps stay blocked; a relu and a residual sum follow."""
    caplog.set_level("INFO", "tvm_ios")

    def body(emit: Emit, x: relax.Var) -> relax.Expr:
        x = emit(conv(x, 37, 1))
        y = emit(op.nn.relu(normalised(emit, x, LAST, FIRST, [axis])))
        shifted = emit(op.add(y, constant(1, 37, 1, 1)))
        return emit(conv(emit(op.add(shifted, x)), 20, 1, seed=7))

    mod = relax_module(body, (2, 12, 13, 9))
    assert kinds(mod) == ["conv2d", "layer_norm", "conv2d"]
    check_scheduled(mod)
    assert "has no rule" not in caplog.text


@pytest.mark.parametrize(
    ("there", "back", "axes", "left"),
    [
        (LAST, [0, 1, 3, 2], [3], 1),
        ([0, 3, 2, 1], FIRST, [3], 2),
        (LAST, FIRST, [2], 2),
        (LAST, FIRST, [2, 3], 2),
    ],
    ids=["no return", "columns", "another axis", "two axes"],
)
def test_others_stay(there: list[int], back: list[int], axes: list[int], left: int) -> None:
    """Of two permutations that do not cancel each other, one is left."""

    def body(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(conv(normalised(emit, emit(conv(x, 9, 1)), there, back, axes), 5, 1, seed=7))

    mod = relax_module(body, (2, 12, 9, 9))
    assert kinds(mod).count("permute_dims") == left
    check_scheduled(mod)


def test_computed_factors() -> None:
    def body(emit: Emit, x: relax.Var, gamma: relax.Var) -> relax.Expr:
        x = emit(conv(x, 36, 1))
        return emit(op.nn.layer_norm(x, gamma, constant(36, seed=1), [1]))

    check_scheduled(relax_module(body, (1, 12, 13, 9), (36,)))
