# SPDX-License-Identifier: Apache-2.0
"""The search finds the exact figures that are known for the networks of the IOS paper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import fcm1
from tvm_ios.search import find_schedule, greedy, sequential

NETWORKS = ("squeezenet", "inception_v3", "nasnet_large")
EXPECTED: dict[str, dict[str, Any]] = json.loads((fcm1.DATA / "expected.json").read_text())
LIMITS: dict[str, dict[str, int | None]] = {
    "cc,r3,s8": {"max_group_size": 3, "max_num_groups": 8},
    "cc,unpruned": {"max_group_size": None, "max_num_groups": None},
}
SEARCHES = [(name, key) for name in NETWORKS for key in LIMITS if key in EXPECTED[name]]


@pytest.mark.parametrize(("name", "key"), SEARCHES)
def test_search(name: str, key: str) -> None:
    """Counts and optimum, summed over the parts."""
    found = dict.fromkeys(("states", "transitions", "evaluations", "optimum_ns"), 0)
    for part in (part for block in fcm1.load(name) for part in block):
        result = find_schedule(part.dag, part.cost, merge_class=part.merge_class(), **LIMITS[key])
        found["states"] += result.states
        found["transitions"] += result.transitions
        found["evaluations"] += result.evaluations
        found["optimum_ns"] += round(result.latency)
    # Cones and their unions lead to the same states: which are reached is told once.
    states = EXPECTED[name]["cone,r3,s8"]["states"]
    assert found == {"states": states, **EXPECTED[name][key]}


@pytest.mark.parametrize("name", NETWORKS)
def test_sequential(name: str) -> None:
    """One operator a stage."""
    parts = fcm1.load_blocks(name)
    total = sum(part.schedule_ns(sequential(part.dag)) for part in parts)
    assert total == EXPECTED[name]["sequential_ns"]


@pytest.mark.parametrize("name", NETWORKS)
def test_greedy(name: str) -> None:
    """All that is ready, over whole blocks."""
    parts = fcm1.load_blocks(name)
    total = sum(part.schedule_ns(greedy(part.dag, 8)) for part in parts)
    assert total == EXPECTED[name]["greedy8_ns"]


@pytest.mark.parametrize("name", NETWORKS)
def test_greedy_per_part(name: str) -> None:
    """All that is ready, where a part ends with a barrier."""
    parts = [part for block in fcm1.load(name) for part in block]
    total = sum(part.schedule_ns(greedy(part.dag, 8)) for part in parts)
    expected = EXPECTED[name]
    assert total == expected.get("greedy8_per_part_ns", expected["greedy8_ns"])
