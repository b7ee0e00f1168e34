# SPDX-License-Identifier: Apache-2.0
"""A network compiled for another architecture: vectors of 4 lanes, from the same source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tvm

from support.aarch64 import BF16, NEON
from support.elf import readelf
from support.kernel_module import kernel_module
from support.networks import conv, relax_module
from tvm_ios.backend.cpu.code import network
from tvm_ios.backend.cpu.code.functions import build_functions
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options


def compiled(target: dict, **options: object) -> tuple[str, list[tvm.runtime.Module]]:
    """Return the assembly of two convolutions and of what calls them, and what is linked."""
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
    codes = (kernel_module(functions, resolved), build_functions(found, resolved).mod)
    return "".join(code.inspect_source("asm") for code in codes), list(library.imports)


@pytest.fixture(scope="module")
def network_for_neon() -> tuple[str, list[tvm.runtime.Module]]:
    return compiled(NEON)


@pytest.fixture(scope="module")
def assembly(network_for_neon: tuple[str, list[tvm.runtime.Module]]) -> str:
    return network_for_neon[0]


def test_neon_multiplies_and_rounds_bfloat16() -> None:
    assembly, _ = compiled(BF16, precision="bf16")
    assert re.search(r"bfmmla\s+v\d+\.4s", assembly)
    assert re.search(r"bfcvtn\s+v\d+\.4h", assembly)


def test_neon_multiplies_vectors(assembly: str) -> None:
    assert re.search(r"fmla\s+v\d+\.4s", assembly)


def test_a_network_for_another_cpu_does_not_ask_this_one(assembly: str) -> None:
    assert "cpuid" not in assembly


def test_constants_are_data_of_the_library_there_too(
    network_for_neon: tuple[str, list[tvm.runtime.Module]], tmp_path: Path
) -> None:
    path = tmp_path / "code.o"
    found = []
    for module in network_for_neon[1]:
        module.write_to_file(str(path), "o")
        shown = readelf(path)
        assert "Machine: AArch64" in shown
        found += re.findall(r"OBJECT WEAK HIDDEN 1 (tvm_ios_constants_\w+)", shown)
    assert len(found) == 1
