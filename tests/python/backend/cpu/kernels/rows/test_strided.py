# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations on tensors that are read with strides, and horizontal fusion."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from support.networks import NATIVE, TARGETS, isa_of, run_kernel
from tvm_ios.backend.cpu.kernels.compose import fused_horizontally, with_shapes
from tvm_ios.backend.cpu.kernels.rows.strided import strided_kernel
from tvm_ios.backend.cpu.kernels.rows.strided_axes import StridedMap
from tvm_ios.graph.rearrange import Rearrangement
from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.ops.strides import Strides


def random_array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def strides_of(memory: np.ndarray, view: np.ndarray) -> Strides:
    """How ``view`` reads ``memory``."""
    start = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return Strides(memory.size, tuple(s // 4 for s in view.strides), start // 4)


def check_copy(memory: np.ndarray, view: np.ndarray, target: tvm.target.Target) -> None:
    kernel = strided_kernel(StridedMap(view.shape, strides_of(memory, view)), isa_of(target)[0])
    (output,) = run_kernel(kernel, [memory.reshape(-1)], target)
    np.testing.assert_array_equal(output.reshape(view.shape), view)


VIEWS = {
    "as it is": ((5000,), lambda x: x),
    "long rows": ((3, 7000), lambda x: x[:, 1:]),
    "heads": ((2, 9, 3, 20), lambda x: x.transpose(0, 2, 1, 3)),
    "matrix": ((37, 50), lambda x: x.T),
    "keys": ((2, 9, 3, 20), lambda x: x.transpose(0, 2, 3, 1)),
    "reversed axes": ((3, 5, 17, 4), lambda x: x.T),
    "channels last": ((2, 18, 5, 7), lambda x: x.transpose(0, 2, 3, 1)),
    "every third, backwards": ((11, 60), lambda x: x[::-2, ::-3]),
    "repeated": ((4, 1, 6), lambda x: np.broadcast_to(x, (2, 4, 5, 6))),
    "repeated numbers": ((4, 1), lambda x: np.broadcast_to(x, (4, 50))),
    "one number": ((1, 1), lambda x: x),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_copies(view, target: tvm.target.Target) -> None:
    memory = random_array(*view[0])
    check_copy(memory, view[1](memory), target)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_any_transposition_of_any_slice(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    memory = random_array(*shape)
    cut = tuple(slice(data.draw(st.integers(0, n - 1)), None) for n in shape)
    check_copy(memory, memory[cut].transpose(data.draw(st.permutations(range(len(shape))))), NATIVE)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shapes", [((6, 5, 33), (33,)), ((6, 5, 33), (5, 1)), ((40, 33), (1, 1))])
def test_programs_with_broadcast_arguments(shapes, target: tvm.target.Target) -> None:
    """``x * y + x`` of a transposed ``x`` and a repeated ``y``."""
    source, argument = random_array(*shapes[0]), random_array(*shapes[1], seed=1)
    x = source.swapaxes(0, -1).copy().swapaxes(0, -1)
    memory, y = x.swapaxes(0, -1), np.broadcast_to(argument, x.shape)
    value = Operand("value", 0)
    steps = (
        Step("multiply", (value, Operand("argument", 0))),
        Step("add", (Operand("value", 1), value)),
    )
    arguments = (strides_of(argument, y),)
    strided = StridedMap(x.shape, strides_of(memory, x), Epilogue(steps, ("any",)), arguments)
    inputs = [memory.reshape(-1), argument.reshape(-1)]
    (output,) = run_kernel(strided_kernel(strided, isa_of(target)[0]), inputs, target)
    np.testing.assert_allclose(output.reshape(x.shape), x * y + x, rtol=1e-6, atol=1e-6)


def test_horizontal_fusion() -> None:
    """The parts of a split, of different sizes, in the shapes that the network gives them."""
    memory, core = random_array(6, 700), isa_of(NATIVE)[0]
    whole, bounds = Rearrangement.of(memory.shape), [(0, 300), (300, 301), (301, 700)]
    parts = [whole.part(1, *bound) for bound in bounds]
    kernel = fused_horizontally(
        [strided_kernel(StridedMap(p.stored, p.strides), core) for p in parts]
    )
    kernel = with_shapes(kernel, [memory.shape], [(1, *part.shape) for part in parts])
    outputs = run_kernel(kernel, [memory], NATIVE)
    for output, (begin, end) in zip(outputs, bounds, strict=True):
        np.testing.assert_array_equal(output[0], memory[:, begin:end])
