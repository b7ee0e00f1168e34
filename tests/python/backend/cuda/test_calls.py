# SPDX-License-Identifier: Apache-2.0
"""Calls of what a module brings along, in a network for CUDA: functions, branches, effects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import tvm

from support.calls import IMAGE, Mixed
from support.cuda.fake_driver import Emulated
from support.cuda.whole import compile_whole, run_whole
from support.networks import assert_close, compile_plain, run_vm

NOTES: list[np.ndarray] = []
RUNS = 3  # the second is the first that could be a replay


def negate(x: tvm.runtime.Tensor, y: tvm.runtime.Tensor) -> None:
    y.copyfrom(-x.numpy())


def half(x: tvm.runtime.Tensor) -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(x.numpy() / 2, x.device)


def note(x: tvm.runtime.Tensor) -> None:
    NOTES.append(x.numpy().copy())


@contextmanager
def functions() -> Iterator[None]:
    """What the module calls by name, for this process."""
    for function in (negate, half, note):
        name = f"tests_of_tvm_ios.{function.__name__}"
        tvm.register_global_func(name, function, override=True)
    NOTES.clear()
    yield


def run_calls(function: str, arguments: list[np.ndarray]) -> tuple[list, list[np.ndarray]]:
    """What a function computes each time, and what it has noted."""
    with functions():
        compile_whole(f"calls {function}", Mixed, ["streams"], function)
        made = [run_whole(f"calls {function}", "streams", arguments) for _ in range(RUNS)]
        return made, list(NOTES)


@pytest.mark.parametrize("function", ["tir", "function", "extern", "branch", "effects"])
def test_calls(emulated: Emulated, function: str) -> None:
    """A function of the user's is called in every run, even where that could be a replay."""
    image = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    arguments = [image, np.array(False)] if function == "branch" else [image]
    with functions():
        (expected,) = run_vm(compile_plain(Mixed), arguments, function)
        noted = list(NOTES)
    made, notes = emulated.call(run_calls, function, arguments)
    for (actual,) in made:
        assert_close(actual, expected, 1e-5)
    assert len(notes) == RUNS * len(noted)
    for actual, wanted in zip(notes, noted * RUNS, strict=True):
        assert_close(actual, wanted, 1e-5)
