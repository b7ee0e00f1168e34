# SPDX-License-Identifier: Apache-2.0
"""Kernels that multiply small matrices of bfloat16 by ``bfmmla``, on an emulated AArch64."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import tvm
from hypothesis import given, settings

from support.aarch64 import BF16, emulate_bfmmla, run_by_qemu
from support.bf16_dot2 import TILE_MATMUL_CASES, check_convolution, check_product
from support.conv2d import Case, cases
from support.networks import UNOPTIMISED
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.isa.bfmmla import PRODUCTS as BFMMLA
from tvm_ios.backend.cpu.kernels.layout import Layout

_NARROW = core_of(tvm.target.Target({"kind": "llvm", "mcpu": "x86-64"}))
FOUR_LANES = replace(_NARROW, registers=32, tile_matmul=BFMMLA)
PRODUCTS = [(1, 512, 100), (7, 32, 20), (40, 96, 250), (13, 24, 16), (2, 12, 5), (7, 34, 20)]


@pytest.mark.parametrize("case", TILE_MATMUL_CASES.values(), ids=TILE_MATMUL_CASES)
def test_convolutions(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    emulate_bfmmla(monkeypatch)
    check_convolution(case, UNOPTIMISED, FOUR_LANES, Layout(4))


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(cases())
def test_convolutions_of_any_geometry(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        emulate_bfmmla(patch)
        check_convolution(case, UNOPTIMISED, FOUR_LANES, Layout(4))


@pytest.mark.parametrize("l2_bytes", [1 << 14, 1 << 19])
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products(
    rows: int, depth: int, columns: int, l2_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulate_bfmmla(monkeypatch)
    check_product(rows, depth, columns, UNOPTIMISED, replace(FOUR_LANES, l2_bytes=l2_bytes))


@pytest.fixture
def target() -> tvm.target.Target:
    if "aarch64" not in tvm.target.codegen.llvm_get_targets():
        pytest.skip("TVM's LLVM has no AArch64")
    return tvm.target.Target(BF16)


INSTRUCTIONS = pytest.mark.parametrize("tile_matmul", [BFMMLA, None], ids=["bfmmla", "bfdot"])


@INSTRUCTIONS
@pytest.mark.parametrize("case", TILE_MATMUL_CASES.values(), ids=TILE_MATMUL_CASES)
def test_convolutions_by_instructions(
    case: Case, tile_matmul: str | None, target: tvm.target.Target, tmp_path: Path
) -> None:
    run = partial(run_by_qemu, folder=tmp_path)
    core = replace(core_of(target), tile_matmul=tile_matmul)
    check_convolution(case, target, core, Layout(4), run)


@INSTRUCTIONS
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products_by_instructions(
    rows: int,
    depth: int,
    columns: int,
    tile_matmul: str | None,
    target: tvm.target.Target,
    tmp_path: Path,
) -> None:
    run = partial(run_by_qemu, folder=tmp_path)
    core = replace(core_of(target), tile_matmul=tile_matmul)
    check_product(rows, depth, columns, target, core, run)
