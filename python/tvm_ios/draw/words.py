# SPDX-License-Identifier: Apache-2.0
"""The texts of drawings: times, sizes and strategies."""

from __future__ import annotations

import re

from ..schedule.devices import device_terms, threads
from ..schedule.partitioning import FUSED, FUSED_LEAN, StreamPartitioning
from ..schedule.rounding import rounds
from ..schedule.schedule import Schedule, ScheduledOperator, ScheduledStage
from ..target import short_name

_MULTIPLYING = frozenset(("conv2d", "matmul", "attention", "attention_bias"))

# Characters that neither XML nor UTF-8 may contain, not even escaped.
_UNSPEAKABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def printable(text: str) -> str:
    """Return text without characters that a document cannot contain."""
    return _UNSPEAKABLE.sub("\ufffd", text)


def microseconds(seconds: float | None) -> str:
    """Format seconds as ``123.4 µs``, or from 1000 µs on as ``1.23 ms``; a dash if unknown."""
    if seconds is None:
        return "–"
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} µs"


def operations(flops: int) -> str:
    """Format a number of operations as ``1.2 GFLOP``."""
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if flops >= factor:
            return f"{flops / factor:.1f} {prefix}FLOP"
    return f"{flops} FLOP"


def how(stage: ScheduledStage) -> str:
    """Return the strategy and the work partitioning of a stage as text."""
    if len(stage.operators) == 1 and stage.strategy != "merge":
        return "single"
    return f"{stage.strategy}, {_partitioning(stage)}"


def _partitioning(stage: ScheduledStage) -> str:
    """Return a work partitioning as text."""
    if stage.partitioning in (FUSED, FUSED_LEAN):
        return f"one launch{', lean' * (stage.partitioning == FUSED_LEAN)}"
    streams = StreamPartitioning.parse(stage.partitioning)
    if streams is None:
        return stage.partitioning
    count = min(streams.count or len(stage.groups), len(stage.groups))
    order = ", widest first" if streams.widest else ""
    return f"{count} stream{'s' if count > 1 else ''}{order}{', lean' * streams.lean}"


def machine(schedule: Schedule) -> str:
    """Return the number of threads, as ``2 threads``, or the GPU, as ``cuda sm_90``."""
    counted = device_terms(schedule.target).counted
    return threads(schedule.workers) if counted else short_name(schedule.target)


def target(schedule: Schedule) -> str:
    """Return the target, for a CPU with the number of threads: ``llvm znver4, 2 threads``."""
    name, workers = short_name(schedule.target), machine(schedule)
    return name if workers == name else f"{name}, {workers}"


def share(seconds: float | None, total: float) -> str:
    """Format a share of the total as ``12.3%``."""
    return "" if seconds is None or not total else f"{seconds / total:.1%}"


def details(operator: ScheduledOperator, target: str) -> list[str]:
    """Return lines with all properties of an operator except its title.

    ``target`` is that of the operator's schedule.
    """
    lines = [operator.kind, *([operator.name] if operator.module else []), *operator.outputs]
    if operator.flops:
        lines.append(operations(operator.flops))
    if operator.seconds is not None:
        lines.append(f"{microseconds(operator.seconds)} {device_terms(target).operator_latency}")
    if operator.kernel is not None:
        lines.append(f"kernel {operator.kernel}")
    return lines


def heading(schedule: Schedule) -> list[str]:
    """Return the two lines of a drawing's heading."""
    size = f"{len(schedule.operators)} operators in {len(schedule.stages)} stages"
    made_for = "" if schedule.batch is None else f", batch {schedule.batch}"
    known = schedule.measured or schedule.estimates
    source = "measured" if schedule.measured else "estimated"
    parts = [
        f"{name} {1e3 * known[name]:.3f} ms"
        for name in ("sequential", "greedy", "scheduled")
        if name in known
    ]
    times = f"{source}: {' → '.join(parts)}" if parts else "nothing was measured"
    return [f"{size}; {target(schedule)}{made_for}", times]


def rounded_operators(schedule: Schedule) -> tuple[int, int]:
    """Return how many operators read what they multiply as bfloat16, and how many multiply."""
    multiplying = [op for op in schedule.operators if op.kind in _MULTIPLYING]
    return sum(rounds(op.kernel) for op in multiplying), len(multiplying)


def precision(schedule: Schedule) -> str:
    """Say which operators of a CPU multiply bfloat16, and what that costs; empty if none could."""
    narrow, multiplying = rounded_operators(schedule)
    if not narrow and schedule.rounding is None:
        return ""
    told = f"bf16 in {narrow} of {multiplying} convolutions, products and attentions"
    return told if schedule.rounding is None else f"{told}; {schedule.rounding}"
