# SPDX-License-Identifier: Apache-2.0
"""The page of samples a second: what was the best, and the best of each batch."""

from __future__ import annotations

import json
from pathlib import Path

import throughput


def _way(system: str, callers: int, batch: int, rate: float) -> dict[str, object]:
    return {
        "system": system,
        "threads": 1 if callers else 0,
        "callers": callers,
        "batch": batch,
        "samples_per_s": rate,
    }


def test_the_page_has_the_best_ways(tmp_path: Path) -> None:
    ways = [
        _way("tvm_ios", 2, 1, 300.0),
        _way("tvm_ios", 2, 8, 400.0),
        _way("onnxruntime", 2, 1, 100.0),
        _way("openvino", 0, 8, 200.0),
    ]
    row = {"model": "bert", "ways": ways, "best": ways[1], "best_peer": ways[3], "ratio": 2.0}
    failed = {"model": "albert", "failure": "it was refused"}
    record = {"threads": 2, "cpu": "a CPU", "date": "2026-11-29", "rows": [row, failed]}
    file, page = tmp_path / "f.json", tmp_path / "p.md"
    file.write_text(json.dumps(record))
    options = ["--models", "bert,albert", "--json", str(file), "--page", str(page)]
    assert throughput.main(options) == 0
    text = page.read_text()
    assert "2.00 in geometric mean, from 2.00 to 2.00, over 1 models" in text
    for cell in (
        "2 callers, 1 thread a call, batch 8",
        "OpenVINO, throughput hint, batch 8",
        "300 / 100",
        "400 / 200",
        "0 / 0",
        "it was refused",
    ):
        assert cell in text
