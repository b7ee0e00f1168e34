# SPDX-License-Identifier: Apache-2.0
"""A library for another CPU is refused with a sentence, also by a program that has only TVM."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from support.networks import (
    NATIVE,
    compile_plain,
    conv,
    few_stages,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios.backend.cpu.code import cpu_check
from tvm_ios.transform import InterOperatorSchedule


def network() -> tvm.IRModule:
    return relax_module(lambda emit, x: emit(conv(x, 20, 3)), (1, 20, 8, 8))


def test_the_features_of_known_cpus() -> None:
    def features(mcpu: str) -> list[str]:
        return cpu_check.required_features(tvm.target.Target({"kind": "llvm", "mcpu": mcpu}))

    assert features("x86-64") == []
    assert features("haswell") == ["fma", "f16c", "avx2"]
    assert {"avx512f", "avx512vl", "avx512bw"} < set(features("skylake-avx512"))
    assert "avx512bf16" in features("znver4")
    assert (
        cpu_check.required_features(
            tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"})
        )
        == []
    )


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
