# SPDX-License-Identifier: Apache-2.0
"""Kernels that multiply small matrices of bfloat16 by AMX, which is emulated here."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import tvm
from hypothesis import given, settings

from support.amx import amx_target, emulated_amx, emulation
from support.attentions import BF16_SIZES, Sizes, check_bf16_dot2
from support.bf16_dot2 import TILE_MATMUL_CASES, check_convolution, check_product
from support.conv2d import Case, cases
from support.networks import isa_of
from tvm_ios.backend.cpu.core import core_of


@pytest.fixture(scope="module")
def target() -> tvm.target.Target:
    return amx_target()


@pytest.mark.parametrize("case", TILE_MATMUL_CASES.values(), ids=TILE_MATMUL_CASES)
def test_convolutions(case: Case, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    with emulated_amx():
        check_convolution(case, target, replace(core, bf16_dot2=None), layout)


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


ATTENTIONS = {
    **{name: sizes for name, sizes in BF16_SIZES.items() if name not in ("odd", "one key")},
    "odd": Sizes(2, 3, 37, 53, 24, 19),
    "one key": Sizes(1, 2, 5, 1, 8, 20),
    "several steps": Sizes(1, 2, 70, 197, 64, 64),
    "whole blocks of keys": Sizes(1, 1, 20, 1024, 32, 33),
}


@pytest.mark.parametrize("sizes", ATTENTIONS.values(), ids=ATTENTIONS)
def test_attentions(sizes: Sizes, target: tvm.target.Target) -> None:
    with emulated_amx():
        check_bf16_dot2(sizes, target, core_of(target), False)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(cases())
def test_convolutions_of_any_geometry(case: Case) -> None:
    target = amx_target()
    core, layout = isa_of(target)
    with emulation():  # a convolution all of whose taps lie in the padding multiplies nothing
        check_convolution(case, target, core, layout)
