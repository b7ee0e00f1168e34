# SPDX-License-Identifier: Apache-2.0
"""Schedules to draw: none of them was measured, and some have names that nobody would choose."""

from __future__ import annotations

import random

from tvm_ios.schedule import Schedule, ScheduledOperator, ScheduledStage

HOSTILE = (
    '</script><script>throw new Error("run")</script>',
    "<img src=x onerror=throw(1)>",
    'a "quoted" \\ name\nof two lines',
    "& &amp; ]]> --> \x00\x1b \ud800",
    "conv2d/Ünïcode·名前",
)
NASNET_OPERATORS = 374


def schedule_of(
    operators: tuple[ScheduledOperator, ...], stages: tuple[ScheduledStage, ...]
) -> Schedule:
    target = '{"kind": "llvm", "mcpu": "znver4"}'
    return Schedule("0123456789abcdef", "main", target, 2, operators, stages)


def small() -> Schedule:
    """A stem, two branches side by side and two merged ones, and what joins them."""
    shape = ("float32[1, 8, 16, 16]",)
    operators = (
        ScheduledOperator("stem", "conv2d", 40e-6, (), shape, 2_000_000),
        ScheduledOperator("left", "conv2d", 20e-6, ("stem",), shape, 1_000_000),
        ScheduledOperator("left_next", "max_pool2d", 5e-6, ("left",), shape, 1000),
        ScheduledOperator("right", "conv2d", 10e-6, ("stem",), shape, 500_000),
        ScheduledOperator("one", "conv2d", 8e-6, ("right",), shape, 400_000),
        ScheduledOperator("other", "conv2d", 8e-6, ("right",), shape, 400_000),
        ScheduledOperator(
            "joined", "concat", 2e-6, ("left_next", "one", "other", "stem"), shape, 0
        ),
    )
    stages = (
        ScheduledStage((("stem",),), seconds=22e-6),
        ScheduledStage((("left", "left_next"), ("right",)), "concurrent", "groups", 25e-6),
        ScheduledStage((("one", "other"),), "merge", "tiles", 9e-6),
        ScheduledStage((("joined",),), seconds=1e-6),
    )
    return schedule_of(operators, stages)


def large(count: int = NASNET_OPERATORS, seed: int = 0) -> Schedule:
    """As many operators as NASNet-A-large has, in stages of up to eight groups."""
    choose = random.Random(seed)
    operators: list[ScheduledOperator] = []
    stages: list[ScheduledStage] = []
    while len(operators) < count:
        before = [op.name for op in operators[-40:]]
        groups = []
        for _ in range(min(choose.randint(1, 8), count - len(operators))):
            group: list[str] = []
            for _ in range(min(choose.randint(1, 3), count - len(operators))):
                reads = set(choose.sample(before, min(len(before), choose.randint(1, 3))))
                reads |= set(group[-1:])
                name = f"conv2d_{len(operators)}"
                seconds = choose.uniform(1e-6, 300e-6)
                shape = ("float32[1, 168, 42, 42]",)
                operators.append(
                    ScheduledOperator(name, "conv2d", seconds, tuple(sorted(reads)), shape, 10**7)
                )
                group.append(name)
            if group:
                groups.append(tuple(group))
        stages.append(ScheduledStage(tuple(groups), seconds=choose.uniform(1e-6, 900e-6)))
    return schedule_of(tuple(operators), tuple(stages))


def hostile() -> Schedule:
    """A chain of operators whose names are code, or are not even text."""
    reads = [(), *((name,) for name in HOSTILE)]
    operators = tuple(
        ScheduledOperator(name, f"<{name}>", 1e-6, before, (name,), 1)
        for name, before in zip(HOSTILE, reads, strict=False)
    )
    return schedule_of(operators, tuple(ScheduledStage(((name,),)) for name in HOSTILE))


def on_a_gpu() -> Schedule:
    """Stages of a CUDA device, in each way to divide them."""
    names = tuple("abcdefgh")
    operators = tuple(
        ScheduledOperator(name, "conv2d", 3e-6, (), ("float32[1, 8]",), 100, "gemm_fp32_16x32x32")
        for name in names[:-1]
    )
    stages = (
        ScheduledStage((("a",),), partitioning="streams", seconds=3e-6),
        ScheduledStage((("b",), ("c",), ("d",)), partitioning="streams-2-widest", seconds=5e-6),
        ScheduledStage((("e",), ("f", "g")), partitioning="fused", seconds=4e-6),
        ScheduledStage((("h",),), partitioning="streams"),
    )
    target = '{"kind": "cuda", "arch": "sm_90"}'
    last = ScheduledOperator("h", "topk")
    return Schedule("0123456789abcdef", "main", target, 1, (*operators, last), stages)
