# SPDX-License-Identifier: Apache-2.0
"""Operators merged into one kernel of a CUDA device compute what they do apart."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from support.cuda.fake_driver import TARGET, Emulated
from support.merging import branches
from support.networks import (
    UNOPTIMISED,
    assert_close,
    compile_plain,
    constant,
    conv,
    merging,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios_runtime.session import leaves

ROWS = (23, 20)


def products(*widths: int) -> tvm.IRModule:
    """Products of one matrix, each with a bias and a relu."""

    def body(emit, x):
        results = []
        for i, width in enumerate(widths):
            value = emit(relax.op.matmul(x, constant(ROWS[-1], width, seed=i)))
            value = emit(relax.op.add(value, constant(width, seed=i)))
            results.append(emit(relax.op.nn.relu(value)))
        return relax.Tuple([emit(relax.op.nn.softmax(value)) for value in results])

    return relax_module(body, ROWS)


def turned() -> tvm.IRModule:
    """Convolutions that are written differently: the bias on either side of the sum."""

    def body(emit, x):
        results = []
        for i in range(2):
            bias, value = constant(1, 8, 1, 1, seed=i), emit(conv(x, 8, seed=i))
            value = emit(relax.op.add(*((value, bias) if i else (bias, value))))
            results.append(emit(relax.op.nn.relu(value)))
        return relax.Tuple([emit(relax.op.nn.max_pool2d(value, (2, 2))) for value in results])

    return relax_module(body, (1, 6, 9, 9))


NETWORKS = {
    "channels that vectors do not divide": lambda: branches({"channels": 7}, {"channels": 18}),
    "windows of several sizes": lambda: branches(
        {"kernel": (1, 1), "channels": 8},
        {"kernel": (3, 3), "padding": 1, "channels": 16},
        {"kernel": (1, 5), "padding": (0, 2), "channels": 12},
    ),
    "strides": lambda: branches(
        {"kernel": (3, 3), "padding": 1, "strides": 2}, {"kernel": (1, 1), "strides": 2}
    ),
    "no activation": lambda: branches({}, {"channels": 4}, relu=True, image=(1, 5, 8, 8)),
    "written differently": turned,
    "products": lambda: products(16, 9, 24),
}


def run_merged(name: str, arguments: list[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """The stages that are merged, and what the network computes."""
    scheduler = Scheduler.prepare(NETWORKS[name](), TARGET, cost_model=merging)
    schedule = scheduler.search()
    merged = sum(stage.strategy == "merge" for stage in schedule.stages)
    variants = scheduler.compile({"merged": schedule})
    results = variants("merged", [tvm.runtime.tensor(argument) for argument in arguments])
    return merged, [tensor.numpy() for tensor in leaves(results)]


@pytest.mark.parametrize("name", NETWORKS)
def test_merged_operators(emulated: Emulated, name: str) -> None:
    module = NETWORKS[name]()
    arguments = random_arguments(module)
    merged, results = emulated.call(run_merged, name, arguments)
    assert merged == (name != "written differently")
    wanted = run_vm(compile_plain(module, UNOPTIMISED), arguments)
    for result, expected in zip(results, wanted, strict=True):
        assert_close(result, expected, 1e-5)
