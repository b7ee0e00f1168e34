# SPDX-License-Identifier: Apache-2.0
"""Products of bytes by instructions that this machine may not have: emulated, or as assembly."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import tvm

from support.aarch64 import NEON, run_by_qemu
from support.conv2d import Case
from support.int8_dot4 import (
    CASES,
    LIKE_AVX_VNNI,
    PRODUCTS,
    check,
    check_product,
    eight_lanes,
    neon_with,
)
from support.kernel_module import kernel_module
from tvm_ios.backend.cpu.core import check_runnable, core_of
from tvm_ios.backend.cpu.isa.dot4 import AVX2, AVX512, ONE_UNIT
from tvm_ios.backend.cpu.kernels.factors import Factors
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import reduced_precision_matmul_kernel
from tvm_ios.errors import TargetError
from tvm_ios.lowering.product import Matmul
from tvm_ios.target import resolve


def _of(mcpu: str, arm: bool = False) -> tvm.target.Target:
    triple = NEON["mtriple"] if arm else "x86_64-linux-gnu"
    return tvm.target.Target({"kind": "llvm", "mtriple": triple, "mcpu": mcpu})


def instruction(target: tvm.target.Target, factors: Factors = "quads") -> str | None:
    found = core_of(target).int8_dot4
    if found is None:
        return None
    return (found.small or found if factors == "small quads" else found).instruction


def test_the_instructions_of_known_processors() -> None:
    assert instruction(_of("x86-64")) is None
    assert instruction(_of("znver3")) == instruction(_of("haswell")) == "vpmaddwd"
    assert instruction(_of("znver3"), "small quads") == "vpmaddubsw"
    assert core_of(_of("haswell")).int8_dot4 == ONE_UNIT
    assert core_of(_of("alderlake")).int8_dot4 == AVX2[0]
    assert core_of(_of("skylake-avx512")).int8_dot4 == AVX512[1]
    assert core_of(_of("cascadelake")).int8_dot4 == AVX512[0]
    assert core_of(_of("knl")).int8_dot4 is None  # no products of 16-bit integers in its vectors
    if "aarch64" in tvm.target.codegen.llvm_get_targets():
        assert instruction(_of("cortex-a53", arm=True)) is None
        assert instruction(_of("cortex-a76", arm=True)) == "sdot"
        assert instruction(_of("neoverse-n2", arm=True)) == "usdot"


@pytest.mark.parametrize(
    ("target", "assembly"),
    [
        (_of("alderlake"), r"\{vex\}\s+vpdpbusd\s+%ymm"),
        (_of("cascadelake"), r"vpdpbusd\s+%zmm"),
        (_of("skylake-avx512"), r"vpmaddwd\s+%zmm"),
        (_of("znver3"), r"vpmaddwd\s+%ymm"),
    ],
    ids=["avxvnni", "avx512vnni", "avx512bw", "avx2"],
)
def test_instructions_of_x86(target: tvm.target.Target, assembly: str) -> None:
    kernel = reduced_precision_matmul_kernel(Matmul(9, 64, 40), core_of(target), "quads")
    code = kernel_module({"f": (kernel, 0)}, target).inspect_source("asm")
    assert re.search(assembly, code)


def test_a_processor_that_this_machine_is_not() -> None:
    """One with AVX512_VNNI executes the instruction in another encoding only."""
    if tvm.target.codegen.llvm_cpu_has_features("avxvnni", resolve("llvm")):
        pytest.skip("this machine has AVX-VNNI")
    with pytest.raises(TargetError, match="cannot run code for alderlake"):
        check_runnable(tvm.target.Target({"kind": "llvm", "mcpu": "alderlake"}))


@pytest.mark.parametrize("low", [0, 7])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("target", LIKE_AVX_VNNI)
def test_convolutions_of_eight_lanes(case: Case, low: int, target: tvm.target.Target) -> None:
    check(case, target, eight_lanes(), 8, low)


@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
@pytest.mark.parametrize("target", LIKE_AVX_VNNI)
def test_products_of_eight_lanes(
    rows: int, depth: int, columns: int, target: tvm.target.Target
) -> None:
    check_product(rows, depth, columns, target, eight_lanes(), -3)


@pytest.fixture(params=["+dotprod", "+i8mm"])
def neon(request: pytest.FixtureRequest) -> tvm.target.Target:
    target = neon_with(request.param)
    assert instruction(target) == {"+dotprod": "sdot", "+i8mm": "usdot"}[request.param]
    return target


@pytest.mark.parametrize("low", [0, -128])
@pytest.mark.parametrize("name", ["3x3 of a batch", "five channels", "groups"])
def test_convolutions_of_aarch64(
    name: str, low: int, neon: tvm.target.Target, tmp_path: Path
) -> None:
    run: Callable = partial(run_by_qemu, folder=tmp_path)
    check(CASES[name], neon, core_of(neon), 4, low, run=run)


@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS[:-1])
def test_products_of_aarch64(
    rows: int, depth: int, columns: int, neon: tvm.target.Target, tmp_path: Path
) -> None:
    run: Callable = partial(run_by_qemu, folder=tmp_path)
    check_product(rows, depth, columns, neon, core_of(neon), 7, run=run)
