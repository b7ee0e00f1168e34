# SPDX-License-Identifier: Apache-2.0
"""Whole models that are compiled to be timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, conv, few_stages, random_arguments, relax_module
from tvm_ios.backend.cpu.measure import model
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios_runtime.helpers import use_helpers


def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
    return emit(conv(emit(conv(x, 24, seed=1)), 8, seed=2))


def test_they_run_on_the_helpers_as_deployed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for several workers; what they compute does not change."""
    helped: dict[int, bool] = {}
    outputs: list[np.ndarray] = []
    mod = relax_module(body, (1, 8, 9, 9))
    inputs = [tvm.runtime.tensor(value) for value in random_arguments(mod, "main")]
    for workers in (1, 2):

        def noted(library: Any, workers: int = workers) -> bool:
            helped[workers] = use_helpers(library)
            return helped[workers]

        monkeypatch.setattr(model, "use_helpers", noted)
        target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
        scheduler = Scheduler.prepare(mod, target, cost_model=few_stages)
        variants = scheduler.compile({"sequential": scheduler.unsearched()})
        outputs.append(variants("sequential", inputs).numpy())
    assert helped == {1: False, 2: True}
    np.testing.assert_array_equal(*outputs)
