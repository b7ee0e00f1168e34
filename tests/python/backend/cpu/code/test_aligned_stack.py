# SPDX-License-Identifier: Apache-2.0
"""Vectors that LLVM spills lie in whole cache lines, at whatever address the stack begins."""

from __future__ import annotations

import re

import pytest
import tvm

from support.networks import conv, relax_module
from tvm_ios.transform import InterOperatorSchedule

AVX512 = {
    "kind": "llvm",
    "mtriple": "x86_64-unknown-linux-gnu",
    "mcpu": "znver4",
    "num-cores": 1,
}


@pytest.fixture(scope="module")
def kernels() -> str:
    """The machine code of a convolution with more values than registers."""
    mod = relax_module(lambda emit, x: emit(conv(x, 96, 7, strides=2)), (1, 3, 224, 224))
    scheduled = InterOperatorSchedule(tvm.target.Target(AVX512), search=False)(mod)
    (library,) = scheduled.attrs["external_mods"]
    found = re.findall(
        r"^(conv2d_\d+_compute:.*?)^\s+\.size", library.inspect_source("asm"), re.M | re.S
    )
    return "\n".join(found)


def test_spilled_vectors_are_aligned(kernels: str) -> None:
    spills = re.findall(r"(vmov\w+)\s+%zmm\d+, -?\d*\(%r[sb]p\)", kernels)
    assert spills
    assert set(spills) == {"vmovaps"}  # "vmovups" where LLVM knows of no alignment
