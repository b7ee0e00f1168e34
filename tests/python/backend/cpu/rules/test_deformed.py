# SPDX-License-Identifier: Apache-2.0
"""Columns of deformed convolutions by a kernel, compared with the loops that TVM makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, TARGETS, check_scheduled, relax_module
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.deformed import Columns, deformed_columns

CASES = {
    "rows that fill no vector": Columns(2, 9, 8, 5, (4, 7), (3, 2), (2, 1), (1, 0), (1, 1)),
    "groups": Columns(1, 7, 21, 38, (5, 19), (2, 3), (1, 1), (0, 1), (2, 1), groups=2),
    "masked": Columns(1, 6, 35, 16, (6, 35), (3, 3), (1, 1), (1, 1), (1, 1), masked=True),
    "masked groups": Columns(
        2, 5, 6, 12, (3, 3), (1, 2), (2, 2), (0, 1), (1, 1), groups=3, masked=True
    ),
}


def network(columns: Columns) -> tvm.IRModule:
    def body(emit, *inputs):
        return deformed_columns(relax.BlockBuilder.current(), columns, inputs)

    types = [relax.TensorType(shape, columns.dtype) for shape in columns.inputs]
    return relax_module(body, *types)


def arguments(columns: Columns) -> list[np.ndarray]:
    """Random offsets, of which some lead out of the image, and some nowhere."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(columns.dtype) for shape in columns.inputs]
    given[1] *= 3
    given[1].flat[:5] = [np.nan, np.inf, -np.inf, 1e30, -1]
    return given


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_columns(name: str, target: tvm.target.Target) -> None:
    columns = CASES[name]
    check_scheduled(network(columns), target=target, arguments=arguments(columns))


def test_in_double_precision() -> None:
    columns = replace(CASES["masked groups"], dtype="float64")
    check_scheduled(network(columns), arguments=arguments(columns), relative=1e-12)


def test_which_kernel_collects() -> None:
    lowered = Scheduler.prepare(network(CASES["groups"]), NATIVE).stage_builder.lowered
    (made,) = lowered.implementations
    assert made is not None
    assert made.kernel.name == "deformed"
