# SPDX-License-Identifier: Apache-2.0
"""Small public models come in both ways, as benchmarks/models.py tries them."""

from __future__ import annotations

from pathlib import Path

import pytest

from public.catalogue import TINY, find
from public.exported import ExportedTrial
from public.record import OURS
from public.trial import Plan


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_a_public_model(name: str, tmp_path: Path) -> None:
    plan = Plan(peers=(), threads=2, rounds=1, window=0.01, say=lambda _text: None)
    outcome = ExportedTrial(find(name), plan, tmp_path).run()
    assert outcome.failure is None
    for way in OURS:
        run = outcome.runs[way]
        assert run.failure is None
        assert run.error <= 1e-4
        assert run.rounds_ms
    assert list(tmp_path.glob("objects_*/*/*.object"))
