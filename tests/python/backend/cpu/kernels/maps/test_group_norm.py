# SPDX-License-Identifier: Apache-2.0
"""Normalisation of groups of channels: groups that begin anywhere, any number of pixels."""

from __future__ import annotations

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
    isa_of,
    poisoned,
    relax_module,
    run_kernel,
    unpack,
)
from tvm_ios.backend.cpu.kernels.maps.group_norm import GroupNorm, group_norm_kernel
from tvm_ios.ops.epilogue import Epilogue, Operand, Step

op = relax.op
STEPS = (
    Step("multiply", (Operand("value", 0), Operand("argument", 0))),
    Step("add", (Operand("value", 1), Operand("argument", 1))),
)


def normalised(data: np.ndarray, groups: int) -> np.ndarray:
    exact = data.astype("float64").reshape(len(data), groups, -1)
    mean, variance = exact.mean(-1, keepdims=True), exact.var(-1, keepdims=True)
    return ((exact - mean) / np.sqrt(variance + 1e-5)).reshape(data.shape)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("channels", "groups", "size"),
    [(40, 1, (9, 7)), (40, 4, (5, 3)), (30, 5, (1, 1)), (48, 3, (35, 33)), (17, 17, (3, 2))],
)
def test_group_norm(channels: int, groups: int, size, target: tvm.target.Target) -> None:
    """Of numbers whose mean is large beside their variance, and differs between channels."""
    core, layout = isa_of(target)
    random = np.random.default_rng(0)
    shape, each = (2, channels, *size), (1, channels, 1, 1)
    data = random.standard_normal(shape) + 100 + random.standard_normal(each)
    data, residual = data.astype("float32"), random.standard_normal(shape).astype("float32")
    gamma, beta, other = (random.standard_normal(each).astype("float32") for _ in range(3))
    epilogue = Epilogue(STEPS, ("full", "channel"))
    norm = GroupNorm(2, channels, size[0] * size[1], groups, 1e-5, epilogue)
    kernel = group_norm_kernel(norm, layout, core)
    maps = [poisoned(layout, data), *map(layout.pack, (gamma, beta))]
    maps += [poisoned(layout, residual), layout.pack(other)]
    inputs = [array.reshape(spec.shape) for array, spec in zip(maps, kernel.inputs, strict=True)]
    (output,) = run_kernel(kernel, inputs, target)
    expected = (normalised(data, groups) * gamma + beta) * residual + other
    relative = 2e-5 if groups < channels or size != (1, 1) else 1e-3
    assert_close(unpack(output, shape), expected.astype("float32"), relative=relative)


def test_a_large_image_far_from_zero() -> None:
    """The mean is a thousand times the deviation; a difference of squares would be noise."""
    core, layout = isa_of(NATIVE)
    shape = (1, 32, 150, 140)
    data = (np.random.default_rng(1).standard_normal(shape) + 1000).astype("float32")
    ones = np.ones((1, 32, 1, 1), "float32")
    kernel = group_norm_kernel(GroupNorm(1, 32, 150 * 140, 2, 1e-5), layout, core)
    maps = (data, ones, 0 * ones)
    inputs = [
        layout.pack(array).reshape(spec.shape)
        for array, spec in zip(maps, kernel.inputs, strict=True)
    ]
    (output,) = run_kernel(kernel, inputs, NATIVE)
    assert_close(unpack(output, shape), normalised(data, 2).astype("float32"), relative=2e-4)


NORMS = {
    "groups": lambda x: op.nn.group_norm(x, constant(36), constant(36, seed=1), 4, 1, [2, 3]),
    "negative axes": lambda x: op.nn.group_norm(
        x, constant(36), constant(36, seed=1), 1, -3, [-1, -2]
    ),
    "instances": lambda x: op.nn.instance_norm(x, constant(36), constant(36, seed=1), 1, [2, 3]),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_in_a_network(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Between convolutions, with a relu and a residual sum after them."""
    caplog.set_level("INFO", "tvm_ios")

    def body(emit, x):
        x = emit(conv(x, 36, 1))
        y = emit(op.nn.relu(emit(NORMS[name](x))))
        return emit(conv(emit(op.add(y, x)), 20, 1, seed=7))

    check_scheduled(relax_module(body, (2, 12, 13, 9)))
    assert "has no rule" not in caplog.text


@pytest.mark.parametrize("flags", [{"scale": False}, {"center": False}], ids=str)
def test_without_a_factor_as_tvm_computes_it(flags: dict[str, bool]) -> None:
    def body(emit, x):
        x = emit(conv(x, 36, 1))
        return emit(op.nn.group_norm(x, constant(36), constant(36), 4, 1, [2, 3], **flags))

    check_scheduled(relax_module(body, (1, 12, 13, 9)))


def test_computed_factors() -> None:
    def body(emit, x, gamma):
        x = emit(conv(x, 36, 1))
        return emit(op.nn.group_norm(x, gamma, constant(36, seed=1), 4, 1, [2, 3]))

    check_scheduled(relax_module(body, (1, 12, 13, 9), (36,)))
