# SPDX-License-Identifier: Apache-2.0
"""A library for another CPU is refused with a sentence, also by a program that has only TVM."""

from __future__ import annotations

import platform

import numpy as np
import pytest
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from support.aarch64 import called_by_qemu
from support.networks import (
    NATIVE,
    compile_plain,
    conv,
    few_stages,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios import TargetError
from tvm_ios.backend.cpu import core
from tvm_ios.backend.cpu.code import cpu_check
from tvm_ios.transform import InterOperatorSchedule
from tvm_ios_env import aarch64


def network() -> tvm.IRModule:
    return relax_module(lambda emit, x: emit(conv(x, 20, 3)), (1, 20, 8, 8))


def test_the_features_of_known_cpus() -> None:
    def features(mcpu: str) -> list[str]:
        return cpu_check.required_features(tvm.target.Target({"kind": "llvm", "mcpu": mcpu}))

    assert features("x86-64") == []
    assert features("haswell") == ["fma", "f16c", "avx2"]
    assert {"avx512f", "avx512vl", "avx512bw"} < set(features("skylake-avx512"))
    assert "avx512bf16" in features("znver4")
    assert "avxvnni" in features("alderlake")
    assert {"avxvnni", "avxifma", "avxvnniint8", "avxvnniint16"} < set(features("arrowlake-s"))
    assert (
        cpu_check.required_features(
            tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"})
        )
        == []
    )


def test_the_features_of_known_cpus_of_aarch64() -> None:
    def features(mcpu: str, triple: str = "aarch64-linux-gnu") -> list[str]:
        target = {"kind": "llvm", "mtriple": triple, "mcpu": mcpu}
        return cpu_check.required_features(tvm.target.Target(target))

    assert features("cortex-a53") == []
    assert features("cortex-a76") == ["lse", "fullfp16", "rdm", "rcpc", "dotprod"]
    assert {"bf16", "i8mm", "sve2", "dotprod"} < set(features("neoverse-n2"))
    assert features("apple-m1", "aarch64-apple-darwin") == []  # which has no such vector to ask


@pytest.mark.parametrize(
    ("compiled_for", "more", "cpu", "runs"),
    [
        ("cortex-a53", [], "cortex-a53", True),
        ("cortex-a76", [], "cortex-a76", True),
        ("cortex-a76", [], "cortex-a53", False),
        ("cortex-a76", ["+bf16"], "max", True),
        ("cortex-a76", ["+bf16"], "cortex-a76", False),
    ],
)
def test_aarch64_is_asked_too(compiled_for: str, more: list[str], cpu: str, runs: bool) -> None:
    target = tvm.target.Target(
        {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": compiled_for, "mattr": more}
    )
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("checked")
        source = tvm.ir.StringImm(cpu_check.check_source(target))
        with T.attr(0, "pragma_import_llvm", source), cpu_check.checked_cpu(target):
            T.evaluate(T.call_extern("int32", "ran"))
    first, second = called_by_qemu(builder.get(), "checked", target, cpu)
    assert first == second
    if runs:
        assert first == "ran"
    else:
        assert first.startswith(f"This library was compiled for {compiled_for}, whose instructions")
        assert first.endswith("compile the model for this machine.")


@pytest.mark.parametrize("missing", [None, "i8mm"])
def test_a_library_for_another_cpu_of_aarch64_is_not_loaded(
    missing: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a process on that architecture, as Linux describes its processor."""
    bits = [0, 0]
    for name, (entry, bit) in aarch64.FEATURES.items():
        bits[entry == 26] |= (name != missing) << bit
    monkeypatch.setattr(aarch64, "_auxiliary", lambda entry: bits[entry == 26])
    monkeypatch.setattr(aarch64.platform, "machine", lambda: "aarch64")
    target = tvm.target.Target(
        {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n2"}
    )
    monkeypatch.setattr(core, "resolve", lambda _: target)
    monkeypatch.setattr(core, "is_native", lambda _: True)
    if missing is None:
        core.check_runnable(target)
    else:
        with pytest.raises(TargetError, match="cannot run code for neoverse-n2"):
            core.check_runnable(target)


def test_a_target_without_a_triple_is_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tvm.target.codegen, "llvm_get_system_triple", lambda: "aarch64-linux-gnu")
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64"})
    assert core.core_of(target).registers == 32
    assert cpu_check.required_features(target) == []


def test_a_machine_of_another_architecture_is_not_asked() -> None:
    if platform.machine() != "aarch64":
        assert aarch64.lacking(aarch64.FEATURES) == []


def test_the_answer_is_no_where_a_feature_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit 31 of EAX of leaf 7 is the highest of a count of sub-leaves: no CPU has it."""
    monkeypatch.setitem(cpu_check._FEATURES, "avx2", (7, 0, 0, 31))
    scheduled = InterOperatorSchedule(NATIVE, cost_model=few_stages)(network())
    executable = compile_plain(scheduled)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="compile the model for this machine"):
            run_vm(executable, random_arguments(network()))


def test_an_exported_library_checks_too(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, missing in (("good.so", False), ("bad.so", True)):
        if missing:
            monkeypatch.setitem(cpu_check._FEATURES, "fma", (7, 0, 0, 31))
        scheduled = InterOperatorSchedule(NATIVE, cost_model=few_stages)(network())
        compile_plain(scheduled).export_library(tmp_path / name)
        library = tvm.runtime.load_module(str(tmp_path / name))
        if missing:
            with pytest.raises(RuntimeError, match="this machine's CPU does not have"):
                run_vm(library, random_arguments(network()))
        else:
            assert np.isfinite(run_vm(library, random_arguments(network()))[0]).all()
