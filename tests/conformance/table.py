# SPDX-License-Identifier: Apache-2.0
"""The tables of operators in the documents."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import onnx_suite, variants
from .outcome import LEFT_OUT, REFUSED, RIGHT, Outcome, Test
from .suites import FORMS, ONNX, PEERS, TORCH, VARIANTS

_MOST = 100  # characters of a reason


def written(outcomes: Mapping[Test, Outcome], page: str) -> str:
    """Return a page with the tables of the suites that ran between their marks."""
    ran = {test.suite for test in outcomes}
    for name, suites, table in (
        ("onnx", {ONNX, VARIANTS, PEERS}, onnx_table),
        ("pytorch", {TORCH}, torch_table),
    ):
        if suites <= ran:
            begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
            head, rest = page.split(begin)
            _, tail = rest.split(end)
            page = f"{head}{begin}\n{table(outcomes)}\n{end}{tail}"
    return page


@dataclass
class _Row:
    """What is known of an operator; sets are of tests."""

    right: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    peers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    types: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    versions: set[str] = field(default_factory=set)
    reasons: set[str] = field(default_factory=set)


def onnx_table(outcomes: Mapping[Test, Outcome]) -> str:
    """Return a row for each operator of ONNX: versions, types, counts, and what is refused."""
    rows: dict[str, _Row] = defaultdict(_Row)
    for test, outcome in outcomes.items():
        if test.suite == ONNX:
            _count_test(rows[onnx_suite.operator_of(test.name)], test, outcome)
        elif test.suite == VARIANTS:
            variant = variants.variants(test.form)[test.name]
            _count_variant(rows[variant.operator], variant, outcome)
        elif test.suite == PEERS and outcome.status == RIGHT:
            rows[onnx_suite.operator_of(test.name)].peers[test.form].add(test.name)
    peers = FORMS[PEERS]
    head = ["operator", "versions", "types", "right", "refused", *peers, "why"]
    lines = [_line(head), _line(["---", "---", "---", *["---:"] * (2 + len(peers)), "---"])]
    lines += [_onnx_line(name, rows[name]) for name in sorted(rows)]
    return "\n".join([*lines, "", *_totals(outcomes)])


def _count_test(row: _Row, test: Test, outcome: Outcome) -> None:
    if outcome.status == RIGHT:
        row.right.add(test.name)
        row.types[RIGHT] |= variants.own_types(test.name)
    elif outcome.status == REFUSED:
        row.refused.add(test.name)
        if test.form == onnx_suite.CONSTANTS:
            row.reasons.add(_shortened(outcome.reason))


def _count_variant(row: _Row, variant: variants.Variant, outcome: Outcome) -> None:
    if not variant.variable:
        row.versions |= {variant.label} if outcome.status == RIGHT else set()
    elif variant.is_main:
        row.types[outcome.status].add(variant.label)


def _onnx_line(name: str, row: _Row) -> str:
    refused = row.refused - row.right
    types = row.types[RIGHT]
    lacking = row.types[REFUSED] - types
    why = sorted(row.reasons) if refused else []
    if lacking and types:
        why.append(f"not in {_listed(lacking)}")
    counts = [len(row.peers[peer]) for peer in FORMS[PEERS]]
    versions = _versions(name, row)
    return _line([name, versions, _listed(types), len(row.right), len(refused), *counts,
                  "; ".join(why)])  # fmt: skip


def _versions(name: str, row: _Row) -> str:
    """Return the versions of an operator; those in parentheses have no test that is right."""
    labels = list(map(str, variants.versions(name)))
    proven = {*row.versions, *(labels[-1:] if row.right else [])}
    return ", ".join(label if label in proven else f"({label})" for label in labels)


def _totals(outcomes: Mapping[Test, Outcome]) -> Iterable[str]:
    """Yield the sentences that compare the tests that are right, a sentence for each kind."""
    names = {test.name for test in outcomes if test.suite == ONNX}
    for kind, what in _KINDS.items():
        of_kind = {name for name in names if onnx_suite.kind_of(name) == kind}
        if of_kind:
            right = {t for t, o in outcomes.items() if t.name in of_kind and o.status == RIGHT}
            yield from _total(len(of_kind), what, right)


_KINDS = {
    onnx_suite.PLAIN: "tests",
    onnx_suite.NARROW_TYPES: "tests of 8-bit floats and of 4 and 2 bits",
    onnx_suite.NESTED: "tests on sequences and optionals",
}


def _total(count: int, what: str, right: set[Test]) -> Iterable[str]:
    ours = [test for test in right if test.suite == ONNX]
    as_is = {test.name for test in ours if test.form == onnx_suite.AS_IS}
    fixed = {test.name for test in ours if test.form in (onnx_suite.AS_IS, onnx_suite.DECIDING)}
    yield f"Of {count} {what} {len(as_is)} are right as they are, {len(fixed)} with constant lists"
    peers = [
        f"{sum(test.suite == PEERS and test.form == peer for test in right)} on {peer}"
        for peer in FORMS[PEERS]
    ]
    yield f"and numbers; {' and '.join(peers)}."


def torch_table(outcomes: Mapping[Test, Outcome]) -> str:
    """Return the operators of PyTorch that are right, and a row for each other one."""
    found: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for test, outcome in outcomes.items():
        if test.suite == TORCH:
            found[test.name][test.form] = outcome
    whole = [name for name in sorted(found) if _is_whole(found[name])]
    left_out = [name for name in sorted(found) if _statuses(found[name]) == {LEFT_OUT}]
    others = sorted(found.keys() - {*whole, *left_out})
    lines = [*_sentence("Right, all samples", whole), *_sentence("Left out", left_out)]
    lines += [_line(["operator", *FORMS[TORCH], "why"]), _line(["---"] * 4)]
    for name in others:
        by_form = [found[name].get(form) for form in FORMS[TORCH]]
        why = next((o.reason for o in by_form if o is not None and o.reason), "")
        lines.append(_line([f"`{name}`", *map(_samples, by_form), _shortened(why)]))
    return "\n".join(lines)


def _sentence(head: str, names: Sequence[str]) -> Iterable[str]:
    text = f"{head}: {', '.join(f'`{name}`' for name in names)}."
    yield from textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)
    yield ""


def _is_whole(forms: Mapping[str, Outcome]) -> bool:
    return RIGHT in _statuses(forms) <= {RIGHT, LEFT_OUT}


def _statuses(forms: Mapping[str, Outcome]) -> set[str]:
    return {outcome.status for outcome in forms.values()}


def _samples(outcome: Outcome | None) -> str:
    """Return how many samples are right, of those that have one right answer."""
    if outcome is None:
        return ""
    counted = [sample.status for sample in outcome.samples if sample.status != LEFT_OUT]
    return f"{counted.count(RIGHT)} of {len(counted)}" if counted else "left out"


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


_FAMILIES = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64)}


def _listed(types: set[str]) -> str:
    """Return types by name; all sizes of a kind of integers as one."""
    left, names = set(types), []
    for family, sizes in _FAMILIES.items():
        members = {f"{family}{size}" for size in sizes}
        if members <= left:
            names.append(f"{family}8-64")
            left -= members
    return " ".join(sorted(left, key=_rank) + names)


def _rank(name: str) -> tuple[bool, str]:
    return "float" not in name and name != "double", name


def _shortened(reason: str) -> str:
    """Return the first half of a sentence, without the file's name."""
    text = reason.split("; export")[0].split("; make it")[0].rstrip(".")
    if ".onnx has " in text:
        text = text.split(".onnx has ")[1]
    return text[:_MOST].replace("|", "/").replace("\n", " ")
