# SPDX-License-Identifier: Apache-2.0
"""What is known of a GPU, as text with tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_phases.results import DONE
from gpu_phases.steps import ANSWERS, BASELINES, CPU, SEARCH, SELFTEST, TESTS
from markdown import table

Steps = Mapping[str, Mapping[str, Any]]

_CONTENDERS = {  # by what JSON calls them
    "launched": "no graph",
    "sequential": "sequential",
    "greedy": "greedy",
    "scheduled": "scheduled",
    "torch_compile": "torch.compile",
    "torch_cudnn": "PyTorch, cuDNN",
    "tensorrt": "TensorRT",
}


def summary(about: Mapping[str, Any], steps: Steps) -> str:
    """All that is known, in Markdown."""
    sections = (
        _selftest(steps),
        _answers(steps),
        _contest(steps, BASELINES, "Without a search", "sequential"),
        _tests(steps),
        _contest(steps, SEARCH, "After a search", "scheduled"),
        _cpu(steps),
        _unfinished(steps),
    )
    written = ("\n".join(lines) for lines in map(list, sections) if lines)
    return "\n\n".join([f"# {about['device']}", *written])


def _of(steps: Steps, kind: str) -> dict[str, Mapping[str, Any]]:
    """Results of a kind of step by what is left of its name."""
    prefix = f"{kind}-"
    return {
        name.removeprefix(prefix): record["result"]
        for name, record in steps.items()
        if name.startswith(prefix) and "result" in record
    }


def _selftest(steps: Steps) -> Iterator[str]:
    checks = steps.get(SELFTEST, {}).get("result", {}).get("checks", [])
    if not checks:
        return
    count = sum(check["status"] == "ok" for check in checks)
    yield f"## Self-test: {count} of {len(checks)} checks are ok\n"
    for check in checks:
        if check["status"] != "ok":
            yield f"- {check['group']}, {check['name']}: {check['status']}, {check['detail']}"


def _answers(steps: Steps) -> Iterator[str]:
    found = _of(steps, ANSWERS)
    if found:
        yield "## Answers: the largest error relative to the largest output\n"
        rows = [
            (name, f"{max(result['max_rel_errors']):.1e}", result["reference"])
            for name, result in found.items()
            if "max_rel_errors" in result
        ]
        yield table(["network", "error", "reference"], rows)


def _contest(steps: Steps, kind: str, title: str, ours: str) -> Iterator[str]:
    """Milliseconds of a run where one follows the other; in parentheses, one by one."""
    found = {n: r["timings"] for n, r in _of(steps, kind).items() if "timings" in r}
    if not found:
        return
    names = [c for c in _CONTENDERS if any(c in timings for timings in found.values())]
    yield f"## {title}: milliseconds run after run (one by one)\n"
    rows = [[network, *(_cell(t.get(c)) for c in names)] for network, t in found.items()]
    rows.append([f"÷ {ours}", *(_mean_ratio(found.values(), c, ours) for c in names)])
    yield table(["network", *(_CONTENDERS[c] for c in names)], rows)


def _cell(timing: Mapping[str, Any] | None) -> str:
    if timing is None:
        return "–"
    back_to_back, latency = timing["back_to_back_ms"], timing["latency_ms"]
    return f"{back_to_back['median']:.3f} ({latency['median']:.3f})"


def _mean_ratio(timings: Any, contender: str, ours: str) -> str:
    """The geometric mean, over the networks that both have run."""
    ratios = [
        t[contender]["back_to_back_ms"]["median"] / t[ours]["back_to_back_ms"]["median"]
        for t in timings
        if contender in t and ours in t
    ]
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else "–"


def _tests(steps: Steps) -> Iterator[str]:
    found = _of(steps, TESTS)
    if not found:
        return
    yield "## Tests\n"
    for file, result in found.items():
        outcomes = result.get("tests", {})
        passed = sum(outcome == "passed" for outcome in outcomes.values())
        yield f"- {file}: {passed} of {len(outcomes)} passed"
        yield from (f"  - {n}: {o}" for n, o in outcomes.items() if o != "passed")


def _cpu(steps: Steps) -> Iterator[str]:
    found = [result for result in _of(steps, CPU).values() if result.get("median_ms")]
    if not found:
        return
    yield "## On the CPU: milliseconds\n"
    names = list(dict.fromkeys(name for result in found for name in result["median_ms"]))
    rows = [
        (
            result["network"],
            str(result["threads"]),
            *(f"{result['median_ms'][n]:.2f}" if n in result["median_ms"] else "–" for n in names),
        )
        for result in found
    ]
    yield table(["network", "threads", *names], rows)


def _unfinished(steps: Steps) -> Sequence[str]:
    lines = [
        f"- {name}: {record['status']}, {record.get('failure', '')}"
        for name, record in steps.items()
        if not _is_done(record)
    ]
    return ["## Not done\n", *lines] if lines else []


def _is_done(record: Mapping[str, Any]) -> bool:
    return bool(record.get("status") == DONE)
