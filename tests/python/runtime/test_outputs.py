# SPDX-License-Identifier: Apache-2.0
"""What a loaded model returns is the caller's own: for ever, and in every thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import tvm_ios
import tvm_ios_runtime
from support.networks import conv, relax_module
from support.outputs import SHAPE, assert_equal, expected, network

op = relax.op


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outputs") / "model.so"
    tvm_ios.compile(relax_module(network, SHAPE), search=False, threads=2).save(path)
    return path


@pytest.mark.parametrize("shape", [(4, 0), (0, 4)])
def test_nothing_in_and_nothing_out(shape: tuple[int, int], tmp_path: Path) -> None:
    """NumPy gives an array without elements whatever strides it had before."""

    def body(emit, x):
        return relax.Tuple([emit(op.exp(x)), emit(op.sum(x))])

    tvm_ios.compile(relax_module(body, shape), search=False, threads=1).save(tmp_path / "model.so")
    model = tvm_ios_runtime.load(tmp_path / "model.so")
    wide = np.zeros((4, 4), "float32")
    for x in (
        np.zeros(shape, "float32"),
        wide[: shape[0], : shape[1]],
        tvm_ios_runtime.empty(shape, "float32"),
    ):
        same, total = model(x)
        assert (same.shape, total) == (shape, 0)


def image(seed: int = 0, aligned: bool = True) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(SHAPE).astype("float32")
    if not aligned:
        whole = tvm_ios_runtime.empty((values.size + 1,), "float32")
        whole[1:] = values.ravel()
        return whole[1:].reshape(SHAPE)
    result = tvm_ios_runtime.empty(SHAPE, "float32")
    result[...] = values
    return result


@pytest.mark.parametrize("aligned", [True, False])
def test_outputs_are_the_callers_own(library: Path, aligned: bool) -> None:
    """Whatever is written to one shows in no input, in no other output, and in no other run."""
    model = tvm_ios_runtime.load(library)
    held = []
    for seed in range(4):
        x = image(seed, aligned)
        before, results = x.copy(), model(x)
        assert_equal(results, expected(before))
        for one, other in combinations([x, *results], 2):
            assert not np.shares_memory(one, other)
        held.append((results, [result.copy() for result in results]))
        if seed % 2:
            for result in results:
                result[...] = 7.0
            held.pop()
            np.testing.assert_array_equal(x, before)
        x[...] = -1.0
    for results, copies in held:
        assert_equal(results, copies)


def deep(emit, x):
    for seed in range(4):
        x = emit(op.nn.relu(emit(conv(x, 8, seed=seed))))
    return emit(op.concat([x, emit(op.nn.max_pool2d(x, (3, 3), padding=1))], axis=1))


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("threads") / "model.so"
    mod = relax_module(deep, (1, 8, 12, 12))
    tvm_ios.compile(mod, search=False, threads=2).save(path)
    return path


@pytest.mark.parametrize("load", [tvm_ios_runtime.load, tvm_ios.load])
def test_many_threads_call_one_model(convolutions: Path, load) -> None:
    model = load(convolutions)
    random = np.random.default_rng(0)
    images = [random.standard_normal((1, 8, 12, 12)).astype("float32") for _ in range(6)]
    wanted = [np.array(model(x)).reshape(1, 16, 12, 12) for x in images]
    start = threading.Barrier(len(images))

    def call(number: int) -> None:
        start.wait()
        for _ in range(200):
            result = np.array(model(images[number])).reshape(1, 16, 12, 12)
            np.testing.assert_array_equal(result, wanted[number])

    with ThreadPoolExecutor(len(images)) as threads:
        list(threads.map(call, range(len(images))))  # raises what one of them has raised
