# SPDX-License-Identifier: Apache-2.0
"""A network compiled for another architecture: vectors of 4 lanes, from the same source."""

from __future__ import annotations

import re

import pytest
import tvm

from support.aarch64 import BF16, NEON
from support.kernel_module import kernel_module
from support.networks import conv, relax_module
from tvm_ios.backend.cpu.code import network
from tvm_ios.backend.cpu.code.functions import build_functions
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options


def compiled(target: dict, **options: object) -> str:
    """Return the assembly of two convolutions, and of what calls them."""
    if "aarch64" not in tvm.target.codegen.llvm_get_targets():
        pytest.skip("TVM's LLVM has no AArch64")
    body = lambda emit, x: emit(conv(emit(conv(x, 20, 3)), 20, 1))  # noqa: E731
    mod = relax_module(body, (1, 20, 9, 9))
    resolved = tvm.target.Target(target)
    scheduler = Scheduler.prepare(mod, resolved, options=Options(**options))
    found: dict[str, tvm.tirx.PrimFunc] = {}
    build = network.build_drivers
    with pytest.MonkeyPatch.context() as patched:
        keep = lambda drivers, *rest: found.update(drivers) or build(drivers, *rest)  # noqa: E731
        patched.setattr(network, "build_drivers", keep)
        (library,) = scheduler.emit(scheduler.unsearched()).attrs["external_mods"]
    kernels = {i.kernel.key: i.kernel for i in scheduler.stage_builder.lowered.implementations}
    functions = {
        f"k{n}_{p}": (kernel, p)
        for n, kernel in enumerate(kernels.values())
        for p in range(len(kernel.phases))
    }
    data = [module for module in library.imports if module.kind == "llvm"]
    drivers = build_functions(found, resolved).mod
    codes = (kernel_module(functions, resolved), drivers, *data)
    return "".join(code.inspect_source("asm") for code in codes)


@pytest.fixture(scope="module")
def assembly() -> str:
    return compiled(NEON)


def test_neon_multiplies_and_rounds_bfloat16() -> None:
    assembly = compiled(BF16, precision="bf16")
    assert re.search(r"bfmmla\s+v\d+\.4s", assembly)
    assert re.search(r"bfcvtn\s+v\d+\.4h", assembly)


def test_neon_multiplies_vectors(assembly: str) -> None:
    assert re.search(r"fmla\s+v\d+\.4s", assembly)


def test_a_network_for_another_cpu_does_not_ask_this_one(assembly: str) -> None:
    assert "cpuid" not in assembly


def test_constants_are_data_of_the_library_there_too(assembly: str) -> None:
    assert re.search(r"^tvm_ios_constants_\w+:$", assembly, re.MULTILINE)
