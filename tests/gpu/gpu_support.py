# SPDX-License-Identifier: Apache-2.0
"""Networks on the GPU of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import tvm
from tvm import relax

from support.cuda.whole import repartitioned
from support.networks import constant, few_stages, flatten, relax_module
from tvm_ios.backend.cuda.target import resolve_cuda
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.timing.models import Variants
from tvm_ios.measure.transport.locations import LocalRunner
from tvm_ios.options import Options

DIVISIONS = ("streams", "streams-2", "fused")
SHAPE = (1, 64, 14, 14)


@lru_cache(maxsize=4)
def target(device_id: int = 0) -> tvm.target.Target:
    """The device as a target."""
    return resolve_cuda("cuda", device_id)


def compile_variants(
    mod: tvm.IRModule,
    partitionings: Sequence[str] = DIVISIONS,
    device_id: int = 0,
    **options: object,
) -> Variants:
    """A network of as few stages as can be, once with each division, each one CUDA graph."""
    scheduler = Scheduler.prepare(
        mod, target(device_id), cost_model=few_stages, options=Options(**options),
        runner=LocalRunner(device_id),
    )  # fmt: skip
    found = scheduler.search()
    return scheduler.compile({d: repartitioned(scheduler, found, d) for d in partitionings})


def run(variants: Variants, name: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a way computes of arrays, which are new tensors of the device."""
    return flatten(variants(name, [tvm.runtime.tensor(array) for array in arrays]))


def branches(count: int = 4, seed: int = 0) -> tvm.IRModule:
    """Convolutions of one image that is too small for any of them to fill a GPU."""

    def body(emit, x):
        parts = [
            emit(relax.op.nn.conv2d(x, constant(64, 64, 3, 3, seed=seed + i), padding=1))
            for i in range(count)
        ]
        return emit(relax.op.concat([emit(relax.op.nn.relu(part)) for part in parts], axis=1))

    return relax_module(body, SHAPE)


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype("float32")
