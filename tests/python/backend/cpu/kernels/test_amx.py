# SPDX-License-Identifier: Apache-2.0
"""Kernels that multiply small matrices of bfloat16 by AMX, which is emulated here."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import tvm

from support.amx import amx_target, emulated_amx
from support.conv2d import Case
from support.networks import isa_of
from support.pairs import check_convolution, check_product

CASES = {
    "1x1": Case(kernel=(1, 1), padding=(0, 0, 0, 0)),
    "1x1 of a batch": Case(batch=2, channels=48, kernel=(1, 1), padding=(0, 0, 0, 0)),
    "3x3 of a batch": Case(batch=2, channels=33),
    "3x3 of whole blocks": Case(channels=32, out_channels=(64,), size=(7, 7)),
    "wide": Case(channels=16, out_channels=(48,), size=(5, 70)),
    "odd channels": Case(channels=37, out_channels=(40,)),
    "one channel": Case(channels=1),
    "fifteen channels": Case(channels=15),
    "one pixel": Case(channels=64, size=(1, 1)),
    "strided": Case(channels=19, size=(17, 39), kernel=(7, 7), stride=(2, 2)),
    "dilated": Case(dilation=(2, 3), padding=(2, 3, 2, 3)),
    "1x19": Case(channels=9, size=(3, 23), kernel=(1, 19), padding=(0, 9, 0, 9), dilation=(1, 2)),
    "groups": Case(channels=32, out_channels=(96,), groups=2),
    "two results": Case(out_channels=(10, 24)),
    "many weights": Case(channels=130, out_channels=(200,), size=(5, 6)),
}


@pytest.fixture(scope="module")
def target() -> tvm.target.Target:
    return amx_target()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions(case: Case, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    with emulated_amx():
        check_convolution(case, target, replace(core, pair_products=None), layout)


@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [
        (1, 512, 100),
        (7, 32, 20),
        (40, 96, 250),
        (13, 24, 16),
        (2, 10, 5),
        (70, 200, 90),
        (7, 34, 20),
    ],
)
def test_products(rows: int, depth: int, columns: int, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    with emulated_amx() if depth != 34 else nullcontext():
        check_product(rows, depth, columns, target, replace(core, l2_bytes=1 << 14))
