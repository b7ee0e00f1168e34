# SPDX-License-Identifier: Apache-2.0
"""Integers for quantised operators of ONNX Runtime, and how far two answers may be apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from support.contributed import Node, by_onnx_runtime, compiled

ROUNDING = 2e-5
"""Of float32, of the largest number of an output."""


def integers(*shape: int, dtype: str = "uint8", seed: int = 0) -> np.ndarray:
    """Return integers of the whole range of a type, which differ between shapes."""
    limits = np.iinfo(dtype)
    random = np.random.default_rng([seed, *shape])
    return random.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scales(*shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng([seed, *shape])
    return random.uniform(0.004, 0.04, shape).astype("float32")


def scale(value: float) -> np.ndarray:
    return np.array(value, "float32")


def zero(value: int, dtype: str = "uint8") -> np.ndarray:
    return np.array(value, dtype)


def constants_of(inputs: Any, *given: int) -> list[int]:
    """Return the places of inputs that are neither left out nor given when the model runs."""
    return [i for i, x in enumerate(inputs) if x is not None and i not in given]


def check_near(
    path: Path, node: Node, bound: float = ROUNDING, steps: int = 1, **attributes: Any
) -> None:
    """Compare with ONNX Runtime: integers by steps, others by a bound of the largest one.

    Where a result is as near to one integer as to the next, the order of roundings decides.
    """
    wanted = by_onnx_runtime(node.model(**attributes), node.given())
    found = compiled(path, node, **attributes)
    assert len(found) == len(wanted)
    for ours, right in zip(found, wanted, strict=True):
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        apart = np.abs(ours.astype("float64") - right.astype("float64"))
        if right.dtype.kind in "iu":
            assert apart.max(initial=0) <= steps
            assert (apart > 0).mean() <= 0.06, "few are as near to one as to the next"
        else:
            assert apart.max(initial=0) <= bound * max(np.abs(right).max(initial=0), 1e-6)
