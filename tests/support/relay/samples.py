# SPDX-License-Identifier: Apache-2.0
"""The samples that TVM v0.19 saved: their inputs and weights, and what it computed of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import tvm

from support.networks import assert_close
from support.relay.text import SAMPLES

_INPUTS = ("data", "x")


@cache
def parameters(name: str) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The inputs of a sample, in order, and its weights by name."""
    listed = json.loads((SAMPLES / f"{name}.meta.json").read_text())["params"]
    values = {p["name"]: _value(p["index"], p["name"], p["shape"]) for p in listed}
    inputs = [values.pop(p["name"]) for p in listed if p["is_data"]]
    return inputs, values


def _value(index: int, name: str, shape: list[int]) -> np.ndarray:
    """A parameter, as the README of the samples makes it."""
    value = np.random.default_rng(1000 + index).random(shape)
    if "var" in name or "gamma" in name:
        return (value + 0.5).astype("float32")
    fan = math.prod(shape[1:]) if len(shape) > 1 and name not in _INPUTS else 1
    return ((value - 0.5) * (4.2 / math.sqrt(fan) if fan > 1 else 0.8)).astype("float32")


def save_weights(name: str, path: Path) -> Path:
    """Write the weights of a sample as ``relay.save_param_dict`` did."""
    weights = {key: tvm.runtime.tensor(value) for key, value in parameters(name)[1].items()}
    tvm.runtime.save_param_dict_to_file(weights, str(path))
    return path


def check_outputs(name: str, actual: Sequence[np.ndarray]) -> None:
    """Compare with what v0.19 computed."""
    with np.load(SAMPLES / f"{name}.npz") as expected:
        assert len(actual) == len(expected.files)
        for i, value in enumerate(actual):
            assert_close(value, expected[f"output_{i}"])
