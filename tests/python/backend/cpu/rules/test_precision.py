# SPDX-License-Identifier: Apache-2.0
"""Convolutions that read bfloat16: which kernel they get, and how it is found."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, conv, few_stages, relax_module
from tvm_ios.backend.cpu.kernels.winograd import model
from tvm_ios.backend.cpu.rules import precision
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options


def pooled() -> tvm.IRModule:
    """A convolution of what is rounded for it."""

    def body(emit, x):
        return emit(conv(emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1)), 36, padding=1))

    return relax_module(body, (2, 36, 17, 19))


def builder() -> Any:
    options = Options(precision="bf16")
    return Scheduler.prepare(pooled(), NATIVE, cost_model=few_stages, options=options).stage_builder


@pytest.mark.parametrize(("speed", "kind"), [(0.1, "bf16-winograd"), (100.0, "bf16")])
def test_the_predicted_kernel_is_the_one_of_its_name(
    monkeypatch: pytest.MonkeyPatch, speed: float, kind: str
) -> None:
    """Whether products of bfloat16 are slow or fast; a schedule repeats what was predicted."""
    monkeypatch.setattr(precision, "_SPEED", dict.fromkeys(precision._SPEED, speed))
    predicted = builder()
    name, variant = predicted.lowered.graph.operators[1].name, predicted.variant(1)
    assert variant in (kind, f"{kind}2", f"{kind}4")
    named = predicted.chosen({name: variant}, {})
    keys = [made.lowered.implementations[1].kernel.key for made in (predicted, named)]
    assert keys[0] == keys[1]
    assert predicted.lowered.narrow == named.lowered.narrow != {}


def test_a_convolution_is_predicted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which values are rounded does not depend on the prediction."""
    convs = []

    def best_tiling(conv: Any, *rest: Any) -> Any:
        convs.append(conv)
        return best(conv, *rest)

    best = model.best_tiling
    monkeypatch.setattr(model, "best_tiling", best_tiling)
    builder()
    assert len(convs) == 1
