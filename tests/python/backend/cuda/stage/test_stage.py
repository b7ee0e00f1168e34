# SPDX-License-Identifier: Apache-2.0
"""Compiled models with stages on parallel streams, on a fake of CUDA's libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cuda.fake_driver import plain, with_fake_driver

# Kernels in the order of their launches, with their streams.
FOUR = [["conv2d", 0], ["fused_conv2d1_tir_tanh", 1], ["max_pool2d", 0], ["conv2d2", 1]]
TWO = [["conv2d", 1], ["fused_conv2d1_tir_tanh", 0]]
REST = {
    len(FOUR): ["concatenate"],
    len(TWO): ["conv2d2", "max_pool2d", "concatenate"],
}
"""What runs after a stage and does not write the function's result."""


def stage(kernels: list[list[Any]], main: str, side: str) -> list[str]:
    """The lines of a journal: fork, launches, join."""
    launches = [f"launch {name}_kernel {(main, side)[stream]}" for name, stream in kernels]
    fork = [f"record e1 {main}", f"wait {side} e1"]
    return [*fork, *launches, f"record e2 {side}", f"wait {main} e2"]


def rest(kernels: list[list[Any]], stream: str) -> list[str]:
    return [f"launch {name}_kernel {stream}" for name in REST[len(kernels)]]


@pytest.fixture(scope="module")
def result(fake_driver: Path) -> dict[str, Any]:
    """What ``support/cuda/model.py`` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "support.cuda.model", json.dumps([FOUR, TWO])],
        env=with_fake_driver(fake_driver), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_drivers_that_are_of_no_use(result: dict[str, Any]) -> None:
    refusals = result["refusals"]
    assert refusals["no_device"].startswith("DeviceError: there is no CUDA device: run where")
    assert refusals["old"].startswith("DeviceError: the CUDA driver is for CUDA 11.8: install one")
    assert refusals["number"] == "DeviceError: there is no CUDA device 7: choose one from 0 to 1"


def test_out_of_memory_is_an_error_of_the_user(result: dict[str, Any]) -> None:
    assert result["out_of_memory"].startswith("DeviceError: the CUDA device is out of memory")


def test_nothing_is_misused(result: dict[str, Any]) -> None:
    journals = [*result["streams"], *(journal for both in result["graphs"] for journal in both)]
    assert not [line for journal in journals for line in journal if "misuse" in line]


def test_a_stage_is_forked_and_joined(result: dict[str, Any]) -> None:
    for run, journal in enumerate(result["streams"]):
        made = [line for line in journal if "create" in line]
        assert len(made) == (3 if run == 0 else 0)  # a stream, two events
        issued = plain([line for line in journal if "allocate" not in line and line not in made])
        assert issued == [
            "launch relu_kernel s0",
            *stage(FOUR, "s0", "s1"),
            *rest(FOUR, "s0"),
            "launch softmax_kernel s0",
        ]


@pytest.mark.parametrize("model", [0, 1])
def test_a_graph_holds_the_stage(result: dict[str, Any], model: int) -> None:
    kernels = [FOUR, TWO][model]
    journal = plain(result["graphs"][0][model])
    captured = journal[journal.index("begin s2") + 1 : journal.index("end s2 g1")]
    assert captured == [*stage(kernels, "s2", "s1"), *rest(kernels, "s2")]


@pytest.mark.parametrize("model", [0, 1])
def test_a_graph_is_replayed_for_every_image(result: dict[str, Any], model: int) -> None:
    kernels = [FOUR, TWO][model]
    names = [name for name, _ in kernels] + REST[len(kernels)]
    replay = " ".join(["replay x1 s0", *(f"{name}_kernel" for name in names)])
    for both in result["graphs"][1:]:  # the models run in turn
        journal = [line for line in plain(both[model]) if not line.startswith("allocate")]
        assert journal == ["launch relu_kernel s0", replay, "launch softmax_kernel s0"]


def test_a_stage_is_timed_in_a_graph(result: dict[str, Any]) -> None:
    assert result["seconds"] == pytest.approx([0.002] * 3)  # two launches, one after the other
