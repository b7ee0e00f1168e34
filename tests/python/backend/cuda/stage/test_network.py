# SPDX-License-Identifier: Apache-2.0
"""A network for CUDA computes what it does on the CPU: in order, on streams, in CUDA graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from support.cuda.fake_driver import Emulated
from support.cuda.model import SHAPE, Stage, compile_network, network
from support.cuda.run import ordered
from support.networks import assert_close, compile_plain, run_vm

ORDERS = ["issued", "reverse", "1"]
STAGES: dict[str, Stage] = {
    "one stream": [("conv2d", 0), ("fused_conv2d1_tir_tanh", 0)],
    "two streams": [("conv2d", 0), ("fused_conv2d1_tir_tanh", 1)],
    "two chains": [
        ("conv2d", 0), ("fused_conv2d1_tir_tanh", 1), ("max_pool2d", 0), ("conv2d2", 1),
    ],
}  # fmt: skip
# The second reads what the first writes.
WRONG: Stage = [("fused_conv2d1_tir_tanh", 0), ("conv2d2", 1)]


def results(
    stage: Stage, cuda_graph: bool, images: list[np.ndarray], orders: list[str]
) -> list[list[np.ndarray]]:
    """What it makes of each image, in each order; every image has an address of its own."""
    machine = compile_network(stage, cuda_graph)
    made = []
    for order in orders:
        with ordered(order):
            arguments = [tvm.runtime.tensor(image, tvm.cuda(0)) for image in images]
            made.append([machine["main"](argument).numpy() for argument in arguments])
    return made


@pytest.fixture(scope="module")
def images() -> list[np.ndarray]:
    """Two images in turn, so that a graph is replayed on another address with another value."""
    random = np.random.default_rng(0)
    one, other = (random.standard_normal(SHAPE).astype("float32") for _ in range(2))
    return [one, other, one, other]


@pytest.fixture(scope="module")
def expected(images: list[np.ndarray]) -> list[np.ndarray]:
    executable = compile_plain(network())
    return [run_vm(executable, [image])[0] for image in images]


@pytest.mark.parametrize(
    ("stage", "cuda_graph"),
    [("one stream", False), ("two streams", False), ("two streams", True), ("two chains", True)],
)
def test_network(
    emulated: Emulated,
    images: list[np.ndarray],
    expected: list[np.ndarray],
    stage: str,
    cuda_graph: bool,
) -> None:
    for made in emulated.call(results, STAGES[stage], cuda_graph, images, ORDERS):
        for actual, wanted in zip(made, expected, strict=True):
            assert_close(actual, wanted, 1e-5)


@pytest.mark.parametrize("cuda_graph", [False, True], ids=["streams", "graph"])
def test_a_stage_that_lacks_a_dependency(
    emulated: Emulated, images: list[np.ndarray], expected: list[np.ndarray], cuda_graph: bool
) -> None:
    """Issued in a fortunate order it works; that is what the other orders are for."""
    fortunate, reverse = emulated.call(results, WRONG, cuda_graph, images, ["issued", "reverse"])
    assert_close(fortunate[-1], expected[-1], 1e-5)
    assert np.abs(reverse[-1] - expected[-1]).max() > 1e-3
