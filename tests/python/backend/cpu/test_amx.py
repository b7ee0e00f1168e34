# SPDX-License-Identifier: Apache-2.0
"""Networks for processors with AMX: computed by emulation, and refused where it is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm

from support.amx import amx_target, emulated_amx, unchecked
from support.networks import (
    check_scheduled,
    compile_plain,
    few_stages,
    merging,
    random_arguments,
    run_vm,
)
from support.rounded import BODIES, BOUND, fire, image, module
from tvm_ios import target as targets
from tvm_ios.backend.cpu.core import check_runnable, core_of
from tvm_ios.backend.cpu.measure import peak_flops
from tvm_ios.errors import TargetError
from tvm_ios.target import resolve
from tvm_ios.transform import InterOperatorSchedule


@pytest.fixture(scope="module")
def target() -> tvm.target.Target:
    return amx_target()


@pytest.mark.parametrize("cost_model", [few_stages, merging])
@pytest.mark.parametrize("body", [b for b in BODIES if b is not image], ids=lambda f: f.__name__)
def test_networks(body: Callable, cost_model: Callable, target: tvm.target.Target) -> None:
    with emulated_amx(), unchecked():
        check_scheduled(
            module(body), target=target, relative=BOUND, precision="bf16", cost_model=cost_model
        )


@pytest.mark.skipif(targets.permitted(), reason="this machine has AMX")
def test_a_machine_without_it_is_told(target: tvm.target.Target) -> None:
    with pytest.raises(TargetError, match="This machine cannot run code for"):
        check_runnable(target)
    schedule = InterOperatorSchedule(target, cost_model=few_stages, precision="bf16")
    with pytest.raises(RuntimeError, match=r"amx-bf16, amx-tile.*compile the model for"):
        run_vm(compile_plain(schedule(module(fire)), target), random_arguments(module(fire)))


def test_float32_does_not_need_it(target: tvm.target.Target) -> None:
    check_scheduled(module(fire), target=target)


@pytest.mark.parametrize("permitted", [False, True])
def test_a_processor_that_has_it_by_its_name(
    permitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual machine may hide it; of another machine it is not known."""
    monkeypatch.setattr(targets, "permitted", lambda: permitted)
    codegen = tvm.target.codegen
    monkeypatch.setattr(codegen, "llvm_get_system_cpu", lambda: "sapphirerapids")
    monkeypatch.setattr(codegen, "llvm_get_system_triple", lambda: "x86_64-linux-gnu")
    assert bool(core_of(resolve("llvm")).tile_matmul) is permitted
    assert not core_of(resolve("llvm", cpu="sapphirerapids")).tile_matmul
    assert core_of(resolve('{"kind": "llvm", "mcpu": "sapphirerapids"}')).tile_matmul
    assert core_of(resolve('{"kind": "llvm", "mattr": ["+amx-bf16"]}')).tile_matmul
    assert resolve("llvm", cpu="znver5").attrs.get("mattr") is None


def test_its_peak_is_measured(target: tvm.target.Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_flops, "STEPS", 10)
    peak = peak_flops.MultiplyAdds(target, bf16=True)
    assert peak.flops == 2 * 10 * 2 * 32**3
    with emulated_amx():
        assert peak.gflops(repeat=1) > 0
