# SPDX-License-Identifier: Apache-2.0
"""Stages are timed with weights as cold as they are when the whole network runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.model import Driver
from support.cuda.whole import settings
from support.networks import conv, few_stages, relax_module
from tvm_ios.backend.cuda.measure.builder import CudaKernelBuilder
from tvm_ios.backend.cuda.measure.runner import CudaStageRunner
from tvm_ios.backend.cuda.measure.session_handles import Call, CudaSessionHandles
from tvm_ios.backend.cuda.measure.weights import weights_from
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.lowering.cold import Place
from tvm_ios.measure.transport.session import LocalSession

NETWORK = relax_module(
    lambda emit, x: emit(relax.op.nn.relu(emit(conv(x, 24, 3, seed=1)))), (1, 16, 9, 9)
)


def timed(l2_bytes: int) -> tuple[str, list[float], list[set[Place]], list[str]]:
    """Where weights are read from with a second cache of so many bytes; a stage's seconds, and
    where each of its tensors lies in the runs that are timed together."""
    stage_builder = Scheduler.prepare(NETWORK, TARGET, cost_model=few_stages).stage_builder
    found = stage_builder.lowered.config
    config = replace(found, limits=replace(found.limits, l2_bytes=l2_bytes))
    lowered = replace(stage_builder.lowered, config=config)
    bench = CudaStageRunner(
        replace(stage_builder.network, lowered=lowered), CudaKernelBuilder(TARGET), LocalSession(),
        0, 0,
    )  # fmt: skip
    spec = stage_builder.stage_of((0,), "concurrent")
    stage = stage_builder.partition(spec, stage_builder.default_partitioning, {})
    driver, time, places = Driver(), CudaSessionHandles.time, []

    def note(
        handles: CudaSessionHandles, runs: Sequence[Sequence[Call]], *arguments: Any
    ) -> np.ndarray:
        places.extend(call.places for run in runs for call in run)
        return time(handles, runs, *arguments)

    with settings({"TVM_IOS_FAKE_DRIVER_COMPUTE": "0"}), pytest.MonkeyPatch.context() as patch:
        bench.time([stage], 1)  # checks the stage
        patch.setattr(CudaSessionHandles, "time", note)
        with driver.journal() as journal:
            seconds = bench.time([stage], 2).seconds
    return weights_from(lowered), seconds, list(map(set, zip(*places, strict=True))), journal


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
