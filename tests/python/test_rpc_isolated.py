# SPDX-License-Identifier: Apache-2.0
"""Measuring in a process of its own: what crashes or hangs there costs only itself."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from rpc_support import wait_until
from support import NATIVE, conv, relax_module
from tvm_ios import DeviceError
from tvm_ios.kernels.kernel import Kernel
from tvm_ios.lower.functions import kernel_function
from tvm_ios.measure import libraries
from tvm_ios.measure.sites import Isolated
from tvm_ios.options import Options
from tvm_ios.scheduler import Scheduler
from tvm_ios.search import Candidate

LIMIT = 0.5  # seconds of a stage


def _scheduler() -> Scheduler:
    """Two convolutions that can be merged."""
    mod = relax_module(
        lambda emit, x: relax_concat([emit(conv(x, 24, seed=seed)) for seed in (1, 2)]),
        (1, 8, 9, 9),
    )
    return Scheduler(mod, NATIVE, options=Options(winograd=False), site=Isolated(LIMIT))


def relax_concat(values: list[tvm.relax.Expr]) -> tvm.relax.Expr:
    return tvm.relax.op.concat(values, axis=1)


def _calling(kernel: Kernel, name: str, function: str) -> tirx.PrimFunc:
    """A kernel's function that only calls a function of the C library."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        for i, spec in enumerate(kernel.tensors):
            T.arg(f"t{i}", T.buffer(spec.shape, spec.dtype, layout=None))
        for bound in ("begin", "end"):
            T.arg(bound, tirx.Var(bound, "int32"))
        T.evaluate(tirx.call_extern("int32", function))
    return builder.get()


@pytest.mark.parametrize("function", ["abort", "pause"])
def test_a_stage_that_crashes_or_hangs_is_not_used(
    function: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = _scheduler()
    sound = {i.kernel.key for i in made._assembler.lowered.implementations}

    def compiled(kernel: Kernel, phase: int, name: str) -> tirx.PrimFunc:
        if kernel.key in sound:
            return kernel_function(kernel, phase, name)
        return _calling(kernel, name, function)

    monkeypatch.setattr(libraries, "kernel_function", compiled)
    with caplog.at_level(logging.WARNING):
        found = made.search()
    convolutions = tuple(op.index for op in made.graph.operators if op.kind == "conv2d")
    merged, both = made.cost([Candidate(convolutions, s) for s in ("merge", "concurrent")])
    assert merged == math.inf
    assert 0 < both < math.inf
    assert 0 < found.estimates["scheduled"] < math.inf
    assert any("crashed, took too long" in record.message for record in caplog.records)


def test_an_operator_that_crashes_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _scheduler()
    monkeypatch.setattr(
        libraries, "kernel_function", lambda kernel, _phase, name: _calling(kernel, name, "abort")
    )
    with pytest.raises(DeviceError, match="this machine"):
        made.search()


def test_the_process_ends_with_the_search(tmp_path: Path) -> None:
    """Also where the search has no time to end it."""
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal\n"
        "from tvm_ios.measure.sources import Loopback\n"
        "source = Loopback(1.0)\n"
        "session = source.connect()\n"
        "print(source._server._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, timeout=60, check=False)
    group = int(done.stdout)
    wait_until(lambda: not _alive(group), 10.0)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
