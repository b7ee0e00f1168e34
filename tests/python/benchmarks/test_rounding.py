# SPDX-License-Identifier: Apache-2.0
"""Errors of half precision over several inputs, beside those of another system."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import rounding
from peer.models import Model


def half_off(model: Model, _threads: int) -> rounding.Compute:
    """Another system, of which every output is off by a fixed share of the largest."""
    reference = rounding._reference(model)

    def compute(inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        return [output + 0.5 * np.abs(output).max() for output in reference(inputs)]

    return compute


def test_the_same_inputs_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")
    monkeypatch.setattr(rounding, "_openvino", half_off)
    file = tmp_path / "errors.json"
    flags = ["--precision", "bf16", "--inputs", "3", "--threads", "1", "--json", str(file)]
    rounding.main(["bert_tiny", *flags])
    (network,) = json.loads(file.read_text())["networks"]
    assert network["model"] == "bert_tiny"
    assert all(1e-4 < error < 0.1 for error in network["ours"])
    assert len(set(network["ours"])) == 3
    assert network["theirs"] == pytest.approx([0.5] * 3)
    mean = math.prod(network["ours"]) ** (1 / 3) / 0.5
    assert f" {mean:.2f} (" in capsys.readouterr().out


def test_an_interval_holds_most_of_what_is_drawn() -> None:
    """Of repeated samples, 95% have the true ratio in their interval."""
    random = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        ours, theirs = np.exp(random.normal(0.0, 0.2, (2, 20)))
        _, low, high = rounding.Errors("m", list(1.1 * ours), list(theirs)).ratio
        held += low <= 1.1 <= high
    assert 0.9 < held / 400 < 0.98
