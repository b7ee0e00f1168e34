# SPDX-License-Identifier: Apache-2.0
"""Stages are timed with weights as cold as they are when the whole network runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.model import Driver
from support.cuda.whole import settings
from support.networks import conv, few_stages, relax_module
from tvm_ios.backend.cuda.measure.builder import CudaKernelBuilder
from tvm_ios.backend.cuda.measure.runner import CudaStageRunner
from tvm_ios.backend.cuda.measure.weights import WeightsInMemory, weights_from
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.tir.tensor import TensorSpec

TIME = "tvm_ios.runtime.cuda.TimeStage"
NETWORK = relax_module(
    lambda emit, x: emit(relax.op.nn.relu(emit(conv(x, 24, 3, seed=1)))), (1, 16, 9, 9)
)


@contextmanager
def noted() -> Iterator[list[list[Any]]]:
    """The arguments of all runs that stages are timed by."""
    time, runs = tvm_ffi.get_global_func(TIME), []

    def note(repeat: int, arguments: Any, filler: Any) -> Any:
        runs.extend(map(list, arguments))
        return time(repeat, arguments, filler)

    tvm_ffi.register_global_func(TIME, note, override=True)
    yield runs
    tvm_ffi.register_global_func(TIME, time, override=True)


def timed(l2_bytes: int) -> tuple[str, list[float], list[set[int]], list[str]]:
    """Where weights are read from with a second cache of so many bytes; a stage's seconds, and
    where each of its tensors lies in the runs that are timed together."""
    stage_builder = Scheduler.prepare(NETWORK, TARGET, cost_model=few_stages).stage_builder
    config = replace(stage_builder.lowered.config, l2_bytes=l2_bytes)
    lowered = replace(stage_builder.lowered, config=config)
    bench = CudaStageRunner(lowered, CudaKernelBuilder(TARGET), 0, 0)
    spec = stage_builder.stage_of((0,), "concurrent")
    stage = stage_builder.partition(spec, stage_builder.default_partitioning, {})
    driver = Driver()
    with (
        settings({"TVM_IOS_FAKE_DRIVER_COMPUTE": "0"}),
        driver.journal() as journal,
        noted() as runs,
    ):
        seconds = bench.time([stage], 2).seconds
    tensors = [[a.data_ptr() for a in run if isinstance(a, tvm.runtime.Tensor)] for run in runs]
    return weights_from(lowered), seconds, list(map(set, zip(*tensors, strict=True))), journal


def places() -> list[tuple[int, np.ndarray]]:
    """Addresses and values of weights that are handed out, the last one larger than the rest."""
    small, large = TensorSpec((3, 5), "float32"), TensorSpec((1000,), "float16")
    weights = WeightsInMemory([small] * 3, tvm.cuda(0), np.random.default_rng(0))
    taken = [weights.take(spec) for spec in (small, small, small, small, large, large)]
    return [(tensor.data_ptr(), tensor.numpy()) for tensor in taken]


def test_weights_have_places_one_behind_another(emulated: Emulated) -> None:
    addresses, values = zip(*emulated.call(places), strict=True)
    assert [address - addresses[0] for address in addresses[:4]] == [0, 64, 128, 0]
    assert addresses[5] - addresses[4] == 2048  # a multiple of 64 bytes
    assert [v.shape for v in values] == [(3, 5)] * 4 + [(1000,)] * 2
    assert all(np.std(v) > 0.1 for v in values[:4])


@pytest.mark.parametrize(("l2_bytes", "level"), [(1 << 10, "memory"), (1 << 30, "L2")])
def test_the_cache_is_filled_where_weights_come_from_memory(
    emulated: Emulated, l2_bytes: int, level: str
) -> None:
    found, seconds, addresses, journal = emulated.call(timed, l2_bytes)
    assert found == level
    # The image, the weights and the result: two places for the weights in an arena for two.
    assert sorted(map(len, addresses)) == ([1, 1, 2] if level == "memory" else [1, 1, 1])
    assert seconds == pytest.approx([1e-3, 1e-3])
    order = [word for line in journal for word in line.split() if word in ("replay", "set")]
    cold = ["replay", "set", "replay", "set", "replay"]
    assert order == (cold if level == "memory" else ["replay"] * 3)
