# SPDX-License-Identifier: Apache-2.0
"""Networks of the zoo on a GPU compute what ONNX Runtime computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpu_support import DIVISIONS, compile_variants, run
from support.networks import assert_close
from support.zoo import SMALL_CASES, Sizes, reference
from tvm_ios import zoo

LARGE = ("squeezenet", "googlenet", "inception_v3", "randwire_small", "nasnet_a_mobile")


@pytest.mark.parametrize(("name", "sizes"), SMALL_CASES, ids=[name for name, _ in SMALL_CASES])
def test_small(name: str, sizes: Sizes, tmp_path: Path) -> None:
    inputs, expected = reference(name, sizes, tmp_path)
    variants = compile_variants(zoo.load(name, **sizes))
    for partitioning in DIVISIONS:
        (actual,) = run(variants, partitioning, list(inputs.values()))
        assert_close(actual, expected)


@pytest.mark.parametrize("name", LARGE)
def test_as_in_their_papers(name: str, tmp_path: Path) -> None:
    inputs, expected = reference(name, {}, tmp_path)
    variants = compile_variants(zoo.load(name), ["streams"])
    for _ in range(3):  # the first run warms up, the second captures, the third replays
        (actual,) = run(variants, "streams", list(inputs.values()))
        assert_close(actual, expected)


@pytest.mark.parametrize(
    ("precision", "least", "most"), [("tf32", 1e-6, 1e-2), ("fp16", 1e-5, 5e-2)]
)
def test_less_precision(precision: str, least: float, most: float, tmp_path: Path) -> None:
    """It is used, and it is no more than that."""
    inputs, expected = reference("squeezenet", {}, tmp_path)
    variants = compile_variants(zoo.load("squeezenet"), ["streams"], precision=precision)
    (actual,) = run(variants, "streams", list(inputs.values()))
    assert least < np.abs(actual - expected).max() / np.abs(expected).max() < most
