# SPDX-License-Identifier: Apache-2.0
"""Calls of functions that take any sizes, without a virtual machine."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import relax

import tvm_ios
import tvm_ios_runtime
from support.open_networks import save, weight
from tvm_ios_runtime.open_sizes import size_at

WEIGHTS = weight("w", 8, 16)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of two products, between which a workspace is used."""
    folder = tmp_path_factory.mktemp("open")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    save(folder / "m.onnx", nodes, {"x": ["n", 8]}, ["y"], [WEIGHTS, weight("v", 16, 4)])
    tvm_ios.compile(folder / "m.onnx", search=False, threads=2).save(folder / "m.so")
    return folder / "m.so"


def expected(x: np.ndarray) -> np.ndarray:
    first, second = map(numpy_helper.to_array, (WEIGHTS, weight("v", 16, 4)))
    return np.maximum(x @ first, 0) @ second


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 8)).astype("float32")


def test_no_machine_is_needed(library: Path) -> None:
    metadata = tvm_ios_runtime.load(library).metadata
    (described,) = metadata["signatures"]
    assert described["direct"]["dimensions"] == {"n": [0, 0]}
    assert described["direct"]["outputs"] == [["n", 4]]


def test_a_thousand_shapes_leak_nothing(library: Path) -> None:
    model = tvm_ios_runtime.load(library)
    for count in range(1, 101):  # what is kept for the last shapes is there
        model(rows(count))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for count in range(1, 1001):
        x = rows(count % 100 + 1)
        np.testing.assert_allclose(model(x)[0], expected(x), rtol=1e-4, atol=1e-5)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10  # KiB


def test_given_outputs_and_bound_calls(library: Path) -> None:
    model = tvm_ios_runtime.load(library)
    for count in (3, 17):
        x, y = rows(count), np.empty((count, 4), "float32")
        model(x, out=[y])
        np.testing.assert_allclose(y, expected(x), rtol=1e-4, atol=1e-5)
        call = model.bind([x])
        x += 1
        np.testing.assert_allclose(call()[0], expected(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"returns output_0 float32\[3, 4\]"):
        model(rows(3), out=[np.empty((4, 4), "float32")])


def test_threads_with_shapes_of_their_own(library: Path) -> None:
    model, wrong = tvm_ios_runtime.load(library), []

    def work(seed: int) -> None:
        for count in range(seed, 200, 7):
            x = rows(count + 1)
            if not np.allclose(model(x)[0], expected(x), rtol=1e-4, atol=1e-5):
                wrong.append(count)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("reduced", [False, True])
def test_products_of_sizes_that_64_bits_do_not_hold(tmp_path: Path, *, reduced: bool) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        helper.make_node("Concat", ["n", "n", "n"], ["cubic"], axis=0),
        helper.make_node("Expand", ["x", "cubic"], ["cube"]),
        helper.make_node("ReduceMax" if reduced else "Relu", ["cube"], ["y"]),
    ]
    save(tmp_path / "m.onnx", nodes, {"x": ["n"]}, ["y"])
    tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1).save(tmp_path / "m.so")
    model = tvm_ios_runtime.load(tmp_path / "m.so")
    x = np.arange(3, dtype="float32")
    assert model(x)[0].max() == 2
    large = np.zeros(1 << 22, "float32")  # its cube is a multiple of 2**64
    with pytest.raises(ValueError, match=r"large|has more than|more memory than"):
        model(large)
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "m.so")), tvm.cpu())
    with pytest.raises(ValueError, match="elements is too large"):
        vm["main"](tvm.runtime.tensor(large))


def test_sizes_of_the_metadata() -> None:
    size = ["max", ["//", ["-", "n", 1], 2], ["*", ["%", "m", 3], ["min", 4, ["+", "n", 1]]]]
    assert size_at(size, {"n": 9, "m": 5}) == max((9 - 1) // 2, (5 % 3) * min(4, 10))
