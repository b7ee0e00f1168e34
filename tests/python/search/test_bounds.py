# SPDX-License-Identifier: Apache-2.0
"""The search with bounds finds what the plain one finds, on the graphs of the IOS paper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import search_speed
from support import fcm1

EXPECTED = json.loads((fcm1.DATA / "expected.json").read_text())


@pytest.fixture(params=["squeezenet", "inception_v3"])
def graph(request) -> Path:
    return fcm1.DATA / f"{request.param}.json"


def run(capsys, *arguments: object) -> dict[str, object]:
    search_speed.main(list(map(str, arguments)))
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("limits", "name"),
    [(("--max-group-size", 3, "--max-num-groups", 8), "cc,r3,s8"), ((), "cc,unpruned")],
    ids=["pruned", "unpruned"],
)
def test_bounds_do_not_change_the_optimum(graph: Path, limits, name: str, capsys) -> None:
    expected = EXPECTED[graph.stem]
    plain = run(capsys, graph, *limits, "--no-bounds")
    bounded = run(capsys, graph, *limits, "--seconds", 100)
    assert {key: plain[key] for key in expected[name]} == expected[name]
    assert plain["sequential_ns"] == bounded["sequential_ns"] == expected["sequential_ns"]
    assert plain["greedy_ns"] == bounded["greedy_ns"] == expected["greedy8_ns"]
    assert bounded["optimum_ns"] == bounded["lower_bound_ns"] == expected[name]["optimum_ns"]
    assert bounded["proved"]
    assert bounded["states"] < plain["states"]


def test_some_blocks_only(graph: Path, capsys) -> None:
    every = [run(capsys, graph, "--blocks", i)["optimum_ns"] for i in (1, 2)]
    assert run(capsys, graph, "--blocks", "1,2")["optimum_ns"] == sum(every)


def test_where_time_is_up_the_gap_is_stated(graph: Path, capsys) -> None:
    found = run(capsys, graph, "--seconds", 0)
    assert found["lower_bound_ns"] <= found["optimum_ns"] <= found["greedy_ns"]


def test_an_unknown_block_is_refused(graph: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        search_speed.main([str(graph), "--blocks", "99"])
    assert "no block 99" in capsys.readouterr().err
