# SPDX-License-Identifier: Apache-2.0
"""The page of what scheduling gains: ratios within rounds, and what each kind of stage saves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import scheduling
from peer.gains import gains_of
from peer.record import Comparison, Entry, Result
from peers import save


def _stage(*groups: tuple[str, ...], **attributes: object) -> dict[str, object]:
    stage = {"groups": groups, "strategy": "concurrent", "seconds": 2e-6, "apart": 5e-6}
    return {**stage, **attributes}


def test_stages_save_what_their_operators_took_longer_apart() -> None:
    stages = [
        _stage(("a",), apart=None),
        _stage(("b",), ("c",)),
        _stage(("d", "e"), ("f",), apart=3e-6),
        _stage(("g", "h")),
        _stage(("i",), ("j",), strategy="merge"),
        _stage(("k",), ("l",), seconds=None, apart=None),
    ]
    gains = gains_of({"stages": json.loads(json.dumps(stages))})
    assert gains == {
        "side by side": {"stages": 3, "operators": 7, "gain_us": pytest.approx(4)},
        "chained": {"stages": 1, "operators": 2, "gain_us": pytest.approx(3)},
        "merged": {"stages": 1, "operators": 2, "gain_us": pytest.approx(3)},
    }


def _entry(*rounds: float) -> Entry:
    return Entry(rounds_ms=list(rounds), median_ms=sorted(rounds)[len(rounds) // 2])


def test_the_page_has_ratios_and_gains(tmp_path: Path) -> None:
    entries = {
        "sequential": _entry(2.0, 4.0, 2.2),
        "scheduled": _entry(1.0, 2.0, 1.1),
        "onnxruntime": _entry(3.0, 6.0, 3.3),
        "onnxruntime_parallel": _entry(8.0, 8.0, 8.0),
        "openvino": _entry(4.0, 8.0, 4.4),
    }
    gains = {"side by side": {"stages": 3, "operators": 7, "gain_us": 12.34}}
    done = Result("darts", compiled={"scheduled": {"gains": gains}}, entries=entries)
    failed = Result("rgcn", failure="it was refused")
    comparison = Comparison(
        "2026-11-29", {"cpu": "a CPU"}, 2, 1, {"rounds": 3}, {"tvm-ios": "1"}, {}, [done, failed]
    )
    file, page = tmp_path / "f.json", tmp_path / "p.md"
    save(comparison, str(file))
    assert scheduling.main(["--json", str(file), "--page-only", "--page", str(page)]) == 0
    text = page.read_text()
    assert "Sequential ÷ scheduled: 2.000 (2.000–2.000) in geometric mean" in text
    assert "Best peer ÷ scheduled: 3.000 (3.000–3.000) in geometric mean" in text
    assert "- rgcn: it was refused" in text
    assert "12.3" in text


def test_an_unknown_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert scheduling.main(["--networks", "dart"]) == 1
    assert "There is no network dart" in capsys.readouterr().err
