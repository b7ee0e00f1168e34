# SPDX-License-Identifier: Apache-2.0
"""Vectors that LLVM spills lie in whole cache lines, at whatever address the stack begins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tvm
from tvm.tirx.script import builder as T

from support.kernel_module import kernel_module
from tvm_ios.backend.cpu.isa.emit import Accumulators, lanes_of, unroll, zeros
from tvm_ios.backend.cpu.kernels.kernel import Kernel, Phase
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.ops.tir_function import tile_scope

AVX512 = {"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "mcpu": "znver4"}
LANES, SUMS, STEPS = 16, 40, 9  # more sums than the 32 registers


def too_many_sums(buffers: Sequence[Any], begin: Any, extent: Any) -> None:
    """Emit a kernel that reads a row of every tile in each step."""
    source, result = buffers
    with T.serial(begin, begin + extent) as tile, tile_scope():
        sums = Accumulators(SUMS, LANES, zeros(LANES))

        def add(i: Any, step: Any) -> None:
            sums[i] = sums[i] + sums[(i + 1) % SUMS] * source[tile, step, lanes_of(0, LANES)]

        with T.serial(STEPS) as step:
            unroll(0, SUMS, lambda i: add(i, step))
        unroll(0, SUMS, lambda i: T.buffer_store(result, sums[i], [tile, i, lanes_of(0, LANES)]))


def test_spilled_vectors_are_aligned() -> None:
    source, result = (TensorSpec((8, rows, LANES)) for rows in (STEPS, SUMS))
    kernel = Kernel("sums", "sums", (source,), (result,), (Phase(8, too_many_sums),))
    module = kernel_module({"sums": (kernel, 0)}, tvm.target.Target(AVX512))
    assembly = module.inspect_source("asm")
    spills = re.findall(r"(vmov\w+)\s+%zmm\d+, -?\d*\(%r[sb]p\)", assembly)
    assert spills
    assert set(spills) == {"vmovaps"}  # "vmovups" where LLVM knows of no alignment
