# SPDX-License-Identifier: Apache-2.0
"""Kernels of a stage do run at the same time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gpu_support import branches, compile_variants, image, run, target
from support.cuda.whole import repartitioned
from support.networks import few_stages
from tvm_ios.backend.cuda.measure.builder import CudaKernelBuilder
from tvm_ios.backend.cuda.measure.runner import CudaStageRunner
from tvm_ios.backend.cuda.stage.stage import CudaStage
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.transport.session import LocalSession
from tvm_ios.options import Options


def test_profile() -> None:
    """CUPTI sees kernels begin before those beside them have ended."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch is installed without CUDA")
    variants = compile_variants(branches(), ["streams"], strategies=["concurrent"])
    for _ in range(3):
        run(variants, "streams", [image()])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(20):
            run(variants, "streams", [image()])
        torch.cuda.synchronize()
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profile.events()
        if event.device_type == torch.autograd.DeviceType.CUDA and "tvm_ios" in event.name
    )
    assert len(spans) >= 80
    assert any(later[0] < earlier[1] for earlier, later in pairwise(spans))


def test_timeline() -> None:
    """By events inside of a CUDA graph: streams side by side, and stages one after another."""
    options = Options(strategies=["concurrent"])
    scheduler = Scheduler.prepare(branches(), target(), cost_model=few_stages, options=options)
    found = replace(scheduler.search(), synchronization="barrier")
    schedule = repartitioned(scheduler, found, "streams")
    spans = scheduler.trace(schedule).spans
    assert all(0 <= span.begin < span.end for span in spans)
    for stage in range(1, len(schedule.stages)):
        before = max(span.end for span in spans if span.stage == stage - 1)
        assert all(before <= span.begin for span in spans if span.stage == stage)
    for worker in {span.worker for span in spans}:
        track = [span for span in spans if span.worker == worker]
        assert all(one.end <= other.begin for one, other in pairwise(track))
    side_by_side = [(a, b) for a in spans for b in spans if a.worker < b.worker]
    assert any(a.begin < b.end and b.begin < a.end for a, b in side_by_side)


def test_a_stage_takes_less_than_its_parts() -> None:
    """By CUDA's events: kernels on a stream each, and the same one after another."""
    options = Options(strategies=["concurrent"])
    scheduler = Scheduler.prepare(branches(), target(), cost_model=few_stages, options=options)
    bench = CudaStageRunner(
        scheduler.stage_builder.network, CudaKernelBuilder(target()), LocalSession(), 0, 0
    )
    found, seconds = scheduler.search(), {}
    for partitioning in ("streams", "streams-1"):
        schedule = repartitioned(scheduler, found, partitioning)
        stages = [s for s in scheduler.lower(schedule) if isinstance(s, CudaStage)]
        widest = max(stages, key=lambda stage: len(stage.launches))
        assert len(widest.launches) > 1
        bench.time([widest], 5)
        seconds[partitioning] = float(np.median(bench.time([widest], 50).seconds))
    assert seconds["streams"] < seconds["streams-1"]
