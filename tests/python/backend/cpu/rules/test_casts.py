# SPDX-License-Identifier: Apache-2.0
"""Casts between float32 and integers of 8 and 32 bits."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, TARGETS, few_stages, run_kernel, run_vm
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.isa.int8 import WHOLE, Integers
from tvm_ios.backend.cpu.kernels.rows.strided import strided_kernel
from tvm_ios.backend.cpu.kernels.rows.strided_axes import StridedMap
from tvm_ios.backend.cpu.kernels.storage import with_storage
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.strides import Strides
from tvm_ios.transform import InterOperatorSchedule

op = relax.op
SIZE = 261  # some vectors, and a part of one


def integers(dtype: str) -> np.ndarray:
    """Return all integers of 8 bits, or those of 24 bits with the last ones."""
    limits = (-(1 << 24), 1 << 24) if dtype == "int32" else np.iinfo(dtype).min
    if isinstance(limits, tuple):
        return np.linspace(*limits, SIZE).astype(dtype)
    return (np.arange(SIZE) % 256 + limits).astype(dtype)


def identity(target: tvm.target.Target, **places: dict[int, Integers]):
    plain = strided_kernel(StridedMap((SIZE,), Strides(SIZE, (1,))), core_of(target))
    return with_storage(plain, places.get("inputs", {}), places.get("outputs", {}))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", WHOLE)
def test_kernels(dtype: str, target: tvm.target.Target) -> None:
    """There and back; what is cast to an integer loses its fraction."""
    whole = integers(dtype)
    kernel = identity(target, inputs={0: Integers(dtype)})
    (found,) = run_kernel(kernel, [whole], target)
    np.testing.assert_array_equal(found, whole.astype("float32"))
    real = found if dtype == "int32" else np.trunc(found) + np.sign(found) * np.float32(0.75)
    real = real.astype("float32")
    kernel = identity(target, outputs={0: Integers(dtype)})
    (back,) = run_kernel(kernel, [real], target)
    np.testing.assert_array_equal(back, whole)


def cast_of(shape: tuple[int, ...], dtype: str) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    y = relax.Var("y", relax.TensorType(shape[-1:], "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            real = builder.emit(op.add(builder.emit(op.astype(x, "float32")), y))
            near = builder.emit(op.clip(real, 0, 100))
            result = builder.emit_output(builder.emit(op.astype(near, dtype)))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("shape", [(3, 5, 7), (300,), (2, 3, 9, 11)])
@pytest.mark.parametrize("dtype", WHOLE)
def test_networks(dtype: str, shape: tuple[int, ...]) -> None:
    mod = cast_of(shape, dtype)
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    names = {i.kernel.name for i in scheduler.stage_builder.lowered.implementations if i}
    assert names == {"map", "copy"}
    random = np.random.default_rng(0)
    x = random.integers(0, 100, shape).astype(dtype)
    y = (10 * random.standard_normal(shape[-1])).astype("float32")
    scheduled = InterOperatorSchedule(NATIVE, cost_model=few_stages)(mod)
    (found,) = run_vm(tvm.compile(scheduled, NATIVE), [x, y])
    np.testing.assert_array_equal(found, np.clip(x + y, 0, 100).astype(dtype))


def test_other_types_are_left_to_tvm() -> None:
    mod = cast_of((3, 5), "int64")
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    names = [i.kernel.name for i in scheduler.stage_builder.lowered.implementations if i]
    assert "astype" in names
