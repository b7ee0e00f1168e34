# SPDX-License-Identifier: Apache-2.0
"""A comparison as Markdown, for a terminal and for the README."""

from __future__ import annotations

from collections.abc import Sequence

import markdown
from peer.contender import AUTO, COMPILED, CONTENDERS
from peer.figures import Estimate
from peer.record import OWN, Comparison, Entry, Result

_NONE = "–"


def render(comparison: Comparison) -> str:
    """Times and ratios, then memory and errors, then what failed."""
    names = [n for n in CONTENDERS if any(n in r.entries for r in comparison.results)]
    parts = [_heading(comparison), _times(comparison, names), _costs(comparison, names)]
    return "\n\n".join(filter(None, [*parts, _failures(comparison.results)])) + "\n"


def _heading(comparison: Comparison) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in comparison.versions.items())
    threads = "1 thread" if comparison.threads == 1 else f"{comparison.threads} threads"
    limits = ", no wider vectors than AVX2" if comparison.settings.get("avx2") else ""
    return (
        f"{comparison.machine['cpu']}{limits}, {threads}, batch {comparison.batch}, "
        f"fp32, {comparison.date[:10]}. Milliseconds, median of {comparison.settings['rounds']} "
        f"interleaved rounds; in parentheses the 95% interval. {versions}."
    )


def _times(comparison: Comparison, names: Sequence[str]) -> str:
    """Medians, the best peer against ours, and the share of the peak."""
    header = [
        "network",
        *(CONTENDERS[name].title for name in names),
        f"best peer ÷ {OWN}",
        "of the fastest runs",
        f"{OWN} ÷ sequential",
        "% of peak",
        *_auto(names, [f"best peer by default ÷ {AUTO}", f"{OWN} ÷ {AUTO}"]),
    ]
    rows = [_time_row(result, names) for result in comparison.results]
    mean = comparison.best_over_ours()
    if mean is not None:
        title = f"geometric mean of {len(comparison.pairs())}"
        own = _auto(names, [_estimate(comparison.best_over_ours(AUTO)), ""])
        rows.append([title, *("" for _ in names), _estimate(mean), "", "", "", *own])
    return markdown.table(header, rows)


def _auto(names: Sequence[str], cells: list[str]) -> list[str]:
    """Return cells of columns that are there if the precision ``auto`` takes part."""
    return cells if AUTO in names else []


def _time_row(result: Result, names: Sequence[str]) -> list[str]:
    best, own = result.best_peer(), result.entries.get(OWN, Entry())
    ratio = None if best is None else result.over_ours(best)
    sequential = result.over_ours("sequential")
    fastest = result.best_peer(exact=False)
    narrow = None if fastest is None else result.over_ours(fastest, AUTO)
    return [
        result.model,
        *(_number(result.entries.get(name, Entry()).median_ms, "#.4g") for name in names),
        _estimate(ratio),
        _number(result.fastest_over_ours(), ".3f"),
        _number(None if sequential is None else 1 / sequential.median, ".3f"),
        _number(None if own.share_of_peak is None else 100 * own.share_of_peak, ".0f"),
        *_auto(names, [_estimate(narrow), _estimate(result.over_ours(OWN, AUTO))]),
    ]


def _costs(comparison: Comparison, names: Sequence[str]) -> str:
    """Peak memory of each process, largest errors, and seconds of compilation."""
    shown = [name for name in names if name == OWN or name not in COMPILED]
    header = ["network"]
    header += [f"{CONTENDERS[name].title} MB" for name in shown]
    header += ["scheduled ÷ ONNX Runtime", "error", "compile s", "with search s"]
    rounded = [name for name in names if not CONTENDERS[name].exact]
    header += [f"error of {CONTENDERS[name].title}" for name in rounded]
    return markdown.table(header, [_cost_row(r, shown, rounded) for r in comparison.results])


def _cost_row(result: Result, names: Sequence[str], rounded: Sequence[str]) -> list[str]:
    entries = {name: result.entries.get(name, Entry()) for name in CONTENDERS}
    own, other = entries[OWN].peak_mb, entries["onnxruntime"].peak_mb
    return [
        result.model,
        *(_number(entries[name].peak_mb, ".0f") for name in names),
        _number(own / other if own and other else None, ".2f"),
        _number(entries[OWN].error, ".1e"),
        _number(entries["sequential"].compile_s, ".1f"),
        _number(entries[OWN].compile_s, ".1f"),
        *(_rounded(entries[name]) for name in rounded),
    ]


def _rounded(entry: Entry) -> str:
    """Return an error, with the precision that it is of."""
    return f"{_number(entry.error, '.1e')} ({entry.precision})"


def _failures(results: Sequence[Result]) -> str:
    lines = [f"- {r.model}: {r.failure}" for r in results if r.failure]
    lines += [
        f"- {CONTENDERS[name].title} on {result.model}: {entry.failure}"
        for result in results
        for name, entry in result.entries.items()
        if entry.failure
    ]
    return "\n".join(lines)


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return _NONE
    return f"{estimate.median:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else format(value, form)
