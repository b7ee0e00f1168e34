# SPDX-License-Identifier: Apache-2.0
"""Where products of bytes are chosen on processors that have no instruction for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, UNOPTIMISED, few_stages, random_arguments, relax_module, run_vm
from support.quantized import rounded
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.transform import InterOperatorSchedule

ZEN3 = tvm.target.Target({"kind": "llvm", "mcpu": "znver3", "num-cores": 2})
HASWELL = tvm.target.Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
SKYLAKE = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
GRID = (0.05, 121)


def weights(most: int, *shape: int) -> relax.Expr:
    """Weights on the grid of integers up to ``most``."""
    whole = np.random.default_rng(0).integers(-most, most + 1, shape)
    whole[0, 0], whole[0, 1] = most, most
    return relax.const(whole.astype("float32") * np.float32(0.004))


def network(most: int, kernel: int, channels: int = 64, size: int = 28) -> tvm.IRModule:
    """A convolution of bytes, and a product of a single row of bytes."""

    def body(emit, x):
        x = rounded(emit, emit(relax.op.nn.relu(x)), *GRID)
        x = emit(relax.op.nn.max_pool2d(x, (1, 1)))  # which brings channels into blocks
        data = weights(most, channels, channels, kernel, kernel)
        x = rounded(emit, emit(relax.op.nn.conv2d(x, data, padding=kernel // 2)), 0.1, 0)
        means = rounded(emit, emit(relax.op.mean(x, [2, 3])), 0.1, 0)
        return emit(relax.op.matmul(means, weights(most, channels, 12)))

    return relax_module(body, (1, channels, size, size))


def scheduler(mod: tvm.IRModule, target: tvm.target.Target, **options: object) -> Scheduler:
    return Scheduler.prepare(mod, target, options=Options(**options))


def kernels(found: Scheduler) -> dict[str, str | None]:
    operators = found.graph.operators
    return {o.kind: found.stage_builder.variant(o.index) for o in operators}


@pytest.mark.parametrize(
    ("target", "most", "kernel", "expected"),
    [
        (ZEN3, 127, 1, "int8"),
        (ZEN3, 127, 3, "winograd4"),
        (SKYLAKE, 127, 1, "direct"),
        (SKYLAKE, 64, 1, "int8"),
        (HASWELL, 127, 1, "direct"),
        (HASWELL, 64, 1, "int8"),
    ],
)
def test_what_is_faster_is_chosen(
    target: tvm.target.Target, most: int, kernel: int, expected: str
) -> None:
    found = kernels(scheduler(network(most, kernel), target))
    assert found["conv2d"] == expected
    assert found["matmul"] == "int8"  # a row of a product takes as long as reading its weights


def test_without_winograds_algorithm() -> None:
    assert kernels(scheduler(network(127, 3), ZEN3, winograd=False))["conv2d"] == "int8"


@pytest.mark.parametrize(("most", "kernel", "float32"), [(127, 1, "direct"), (64, 3, "winograd4")])
def test_a_search_measures_both(most: int, kernel: int, float32: str) -> None:
    found = scheduler(network(most, kernel), ZEN3)
    builder = found.stage_builder
    (conv,) = (o for o in found.graph.operators if o.kind == "conv2d")
    first, *others = builder.promising(conv.index)
    assert first == builder.variant(conv.index)
    assert {"int8", float32} <= {first, *others}
    assert {first, *others} <= builder.variants(conv.index)
    for name in others:
        other = builder.chosen({conv.name: name}, {})
        assert other.variant(conv.index) == name
        back = other.chosen({conv.name: first}, {})
        assert back.variant(conv.index) == first


def test_an_instruction_is_always_faster() -> None:
    """So that a search measures nothing else."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": "alderlake", "num-cores": 2})
    found = scheduler(network(127, 3), target)
    (conv,) = (o for o in found.graph.operators if o.kind == "conv2d")
    assert found.stage_builder.promising(conv.index) == ("int8",)


@pytest.mark.parametrize("target", [ZEN3, SKYLAKE], ids=["avx2", "avx512bw"])
@pytest.mark.parametrize("most", [127, 64])
@pytest.mark.parametrize("kernel", ["int8", "direct", None])
def test_answers(target: tvm.target.Target, most: int, kernel: str | None) -> None:
    """Where both of a network's sums of integers are, and where one of them is float32."""
    feature = "avx2" if target is ZEN3 else "avx512bw"
    if not tvm.target.codegen.llvm_cpu_has_features(feature, NATIVE):
        pytest.skip(f"this machine has no {feature}")
    mod = network(most, 3, 40, 9)
    arguments = random_arguments(mod)
    expected = run_vm(tvm.compile(mod, UNOPTIMISED), arguments)
    found = Scheduler.prepare(mod, target, cost_model=few_stages)
    schedule = found.unsearched()
    if kernel is not None:
        named = tuple(replace(o, kernel=o.kernel and kernel) for o in schedule.operators)
        schedule = replace(schedule, operators=named)
        lowered = [i for stage in found.lower(schedule) for i in stage.implementations]
        counts = Counter(i.kernel.variant for i in lowered)
        assert counts[kernel] == 2
    scheduled = InterOperatorSchedule(target, schedule=schedule)(mod)
    (answer,) = run_vm(tvm.compile(scheduled, target), arguments)
    assert np.abs(answer - expected[0]).max() < 0.02 * np.abs(expected[0]).max()
