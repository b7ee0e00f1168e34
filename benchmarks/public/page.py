# SPDX-License-Identifier: Apache-2.0
"""A survey of public models as a page of the documentation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping

import markdown
from public.record import OURS, Outcome, Run, Survey

PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "torch.compile"}
NONE = "–"
_TITLES = {OURS[0]: "ours by ONNX", OURS[1]: "ours by `torch.export`", **PEERS}


def render(survey: Survey) -> str:
    """The summary, a table for each family, and every failure with its reason."""
    parts = [_heading(survey), _summary(survey.outcomes)]
    for family in dict.fromkeys(outcome.family for outcome in survey.outcomes):
        members = [outcome for outcome in survey.outcomes if outcome.family == family]
        parts += [f"## {family[:1].upper()}{family[1:]}", _table(members)]
    return "\n\n".join([*parts, *failures(survey.outcomes, _TITLES)]) + "\n"


def _heading(survey: Survey) -> str:
    return (
        "# Public models\n\n"
        "Model definitions of timm, torchvision and transformers at their own sizes, with random "
        "weights, exported\nby PyTorch to ONNX and as programs of `torch.export`, and compiled by "
        "`tvm-ios compile --no-search`. `benchmarks/models.py`\nwrites this page.\n\n"
        f"{conditions(survey)}\n\n"
        "Milliseconds are medians of interleaved rounds, of the faster of our two ways. *Ratio* is "
        "the best of the others\ndivided by ours: above 1 ours is faster. *Error* is the largest "
        "deviation from PyTorch, relative to the largest\nvalue. *Compile* is the whole command on "
        "the ONNX file, first with empty caches, then again; of torch.compile it is a\nprocess "
        "from its start to its first answer."
    )


def conditions(survey: Survey) -> str:
    """Say where and of what the figures are."""
    versions = ", ".join(f"{name} {version}" for name, version in survey.versions.items())
    limits = ", no wider vectors than AVX2" if survey.settings.get("avx2") else ""
    return (
        f"{survey.machine['cpu']}{limits}, {survey.threads} threads, batch 1, fp32, "
        f"{survey.date[:10]}. "
        f"{versions}."
    )


def _summary(outcomes: list[Outcome]) -> str:
    entered = [outcome for outcome in outcomes if outcome.comes_in]
    lines = [f"- {len(entered)} of {len(outcomes)} models come in by at least one way."]
    for name, title in zip(OURS, ("ONNX", "`torch.export`"), strict=True):
        tried = [o.runs[name] for o in outcomes if name in o.runs]
        count = sum(run.failure is None for run in tried)
        lines += [f"- {count} come in by {title}."] if tried else []
    lines += speed(outcomes)
    compiled = [found for o in outcomes if (found := o.compile_ratios("torch")) is not None]
    if compiled:
        first, again = (statistics.median(column) for column in zip(*compiled, strict=True))
        lines.append(
            f"- Our compile time ÷ that of torch.compile: median {first:.2f} the first time, "
            f"{again:.3f} again, over {len(compiled)} models."
        )
    return "\n".join(lines)


def speed(outcomes: Iterable[Outcome], what: str = "models") -> list[str]:
    """Say how many times as long the best of the others takes; nothing if none was timed."""
    ratios = [e.median for o in outcomes if (e := o.best_over_ours()) is not None]
    if not ratios:
        return []
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return [
        f"- Best of the others ÷ ours: median {statistics.median(ratios):.2f}, geometric mean "
        f"{mean:.2f}, from {min(ratios):.2f} to {max(ratios):.2f}, over {len(ratios)} {what}."
    ]


def _table(outcomes: list[Outcome]) -> str:
    shown = [name for name in PEERS if any(name in o.runs for o in outcomes)]
    header = ["model", "ours", *(PEERS[name] for name in shown)]
    header += ["ratio", "error", "compile s", "again s"]
    header += ["torch.compile s", "again s"] if "torch" in shown else []
    return markdown.table(header, [_row(outcome, shown) for outcome in outcomes])


def _row(outcome: Outcome, peers: list[str]) -> list[str]:
    own = outcome.runs.get(outcome.own or "", Run())
    onnx, estimate = outcome.runs.get(OURS[0], Run()), outcome.best_over_ours()
    torch = outcome.runs.get("torch", Run())
    row = [
        outcome.name,
        number(own.median_ms, "#.3g"),
        *(number(outcome.runs.get(name, Run()).median_ms, "#.3g") for name in peers),
        NONE if estimate is None else f"{estimate.median:.2f}",
        number(own.error, ".0e"),
        number(onnx.compile_s, ".1f"),
        number(onnx.again_s, ".1f"),
    ]
    if "torch" in peers:
        row += [number(torch.compile_s, ".1f"), number(torch.again_s, ".1f")]
    return row


def failures(outcomes: Iterable[Outcome], titles: Mapping[str, str]) -> list[str]:
    """Return the section of what failed and why, if anything did."""
    lines = []
    for outcome in outcomes:
        if outcome.failure:
            lines.append(f"- {outcome.name}: {outcome.failure}")
        for name, run in outcome.runs.items():
            if run.failure:
                lines.append(f"- {outcome.name}, {titles[name]}: {run.failure}")
    return ["## What failed", "\n".join(lines)] if lines else []


def number(value: float | None, form: str) -> str:
    """Write a figure, or the sign for none."""
    return NONE if value is None else format(value, form)
