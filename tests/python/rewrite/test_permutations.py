# SPDX-License-Identifier: Apache-2.0
"""Networks whose channels come last, exported with permutations around each convolution."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from support.exported import Exported

RNG = np.random.default_rng(0)
SHAPE = (2, 11, 9, 5)
"""Of the input, whose channels come last."""
INNER = (2, 9, 7, 8)
"""Of what the first convolution computes."""


def constant(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, "float32") / 4


CONSTANTS = {
    "w": constant(8, 5, 3, 3),
    "w8": constant(8, 8, 3, 3),
    "w16": constant(8, 16, 1, 1),
    "w4": constant(6, 4, 1, 1),
    "d": constant(8, 1, 3, 3),
    "p": constant(8, 4),
    "q": constant(4, 8),
    "dense": constant(9 * 7 * 8, 10),
    "b": constant(8),
    "scale": constant(8),
    "slope": constant(1, 1, 8),
    "squeeze": constant(4, 8, 1, 1),
    "excite": constant(8, 4, 1, 1),
    "row": constant(7, 1),
    "factors": constant(2, 4),
    "offsets": constant(2, 4),
    "epsilon": np.float32(1e-3),
    "six": np.float32(6),
    "zero": np.float32(0),
    "pads": np.array([0, 1, 0, 0, 0, 1, 2, 0]),
    "flat": np.array([2, -1]),
    "rows": np.array([-1, 9 * 7 * 8]),
    "pixels": np.array([2, 9 * 7, 8]),
    "anchors": np.array([2, 9 * 7 * 2, 4]),
    "halves": np.array([2, 9, 7, 2, 4]),
    "whole": np.array(INNER),
    "first": np.array([1, 2]),
    "last": np.array([8, 7]),
    "plane": np.array([1, 2]),
}


def images(node: str, data: str, result: str) -> str:
    """Return a node that computes with channels first, with permutations around it."""
    before = f"{result}_n = Transpose<perm = [0, 3, 1, 2]>({data}) "
    inner = f"{result}_c = {node.format(f'{result}_n')} "
    return before + inner + f"{result} = Transpose<perm = [0, 2, 3, 1]>({result}_c) "


def convolved(data: str, result: str, weights: str = "w8", attributes: str = "") -> str:
    return images(f"Conv{attributes}({{}}, {weights})", data, result)


SAME = "<pads = [1, 1, 1, 1]>"
FIRST = convolved("x", "c", "w") + "k = Add(c, b) r = Relu(k) "
BETWEEN = {
    "a normalisation": "m = Mul(r, scale) z = Add(m, b) ",
    "a swish": "s = Sigmoid(r) z = Mul(r, s) ",
    "a sum": convolved("r", "e", attributes=SAME) + "z = Add(e, r) ",
    "a pad": "z = Pad(r, pads) ",
    "a pool": images("MaxPool<kernel_shape = [2, 2]>({})", "r", "z"),
    "a clip": "z = Clip(r, zero, six) ",
    "a slope of each channel": "z = PRelu(k, slope) ",
    "a factor of each row": "z = Mul(r, row) ",
    "a slice": "z = Slice(r, first, last, plane) ",
    "an image's own factors": "m = ReduceMean<axes = [1, 2]>(r) "
    + convolved("m", "s", "squeeze")
    + convolved("s", "e", "excite")
    + "z = Mul(e, r) ",
    "factors of a dense layer": "m = ReduceMean<axes = [1, 2], keepdims = 0>(r) s = MatMul(m, p) "
    "e = MatMul(s, q) f = Unsqueeze(e, plane) z = Mul(r, f) ",
    "a softmax": "z = Softmax<axis = -1>(r) ",
    "a softmax of rows": "z = Softmax<axis = 2>(r) ",
    "the largest": "m = ReduceMax<axes = [3]>(r) z = Sub(r, m) ",
    "groups of channels": "g = Reshape(r, halves) m = ReduceMean<axes = [1, 2, 4]>(g) "
    "s = Sub(g, m) z = Reshape(s, whole) ",
    "channels in another order": "g = Reshape(r, halves) "
    "t = Transpose<perm = [0, 1, 2, 4, 3]>(g) z = Reshape(t, whole) ",
    "a layer normalisation": "z = LayerNormalization<axis = -1>(r, scale, b) ",
    "pixels in a row": "g = Reshape(r, pixels) s = Softmax<axis = 1>(g) z = Reshape(s, whole) ",
}
"""What is computed of ``r`` between two convolutions."""

MOVING = {"channels in another order": 2}
"""The permutations that are left between two convolutions, but for none."""


def network(nodes: str, shape: tuple[int | str, ...] = SHAPE) -> Exported:
    return Exported(nodes, {"x": shape}, CONSTANTS, opset=17)


def permutations(exported: Exported, directory: Path) -> int:
    return exported.operators(directory).count("permute_dims")


@pytest.mark.parametrize("name", BETWEEN)
def test_nothing_is_permuted_between_convolutions(name: str, tmp_path: Path) -> None:
    exported = network(FIRST + BETWEEN[name] + convolved("z", "y"))
    assert permutations(exported, tmp_path) == 2 + MOVING.get(name, 0)
    exported.check(tmp_path)


def test_parts_of_channels(tmp_path: Path) -> None:
    parts = "f, s = Split<axis = 3>(r) g = Sigmoid(s) m = Mul(f, g) "
    exported = network(FIRST + parts + convolved("m", "y", "w4"))
    assert permutations(exported, tmp_path) == 2
    exported.check(tmp_path)


def test_concatenated_channels(tmp_path: Path) -> None:
    parts = convolved("r", "e", attributes=SAME) + "z = Concat<axis = -1>(r, e) "
    exported = network(FIRST + parts + convolved("z", "y", "w16"))
    assert permutations(exported, tmp_path) == 2
    exported.check(tmp_path)


@pytest.mark.parametrize("between", ["", "u = Neg(r) r2 = Relu(u) "], ids=["relu", "two"])
def test_a_dense_layer_takes_the_order_of_images(between: str, tmp_path: Path) -> None:
    last = "r2" if between else "r"
    exported = network(f"{FIRST}{between}f = Reshape({last}, flat) y = MatMul(f, dense)")
    assert permutations(exported, tmp_path) == 1
    exported.check(tmp_path)


def test_open_batches(tmp_path: Path) -> None:
    nodes = FIRST + BETWEEN["a sum"] + "f = Reshape(z, rows) y = MatMul(f, dense)"
    exported = network(nodes, ("batch", *SHAPE[1:]))
    exported.check(tmp_path, 0, 1e-5, {"batch": 1}, {"batch": 3})


def test_means_of_images_are_not_permuted(tmp_path: Path) -> None:
    exported = network(FIRST + "m = ReduceMean<axes = [1, 2], keepdims = 0>(r) y = MatMul(m, p)")
    assert permutations(exported, tmp_path) == 1
    exported.check(tmp_path)


def test_what_follows_a_last_convolution_is_computed_with_it(tmp_path: Path) -> None:
    exported = network(FIRST + "y = Sigmoid(r)")
    assert exported.operators(tmp_path)[-1] == "permute_dims"
    exported.check(tmp_path)


GROUPS = "g = Reshape(r, halves) m = ReduceMean<axes = [1, 2, 4]>(g) u = Sub(g, m) t = Mul(u, u) "
GROUPS += "v = ReduceMean<axes = [1, 2, 4]>(t) a = Add(v, epsilon) n = Sqrt(a) "
NORMS = {
    "factors of channels": GROUPS + "o = Div(u, n) f = Reshape(o, whole) h = Mul(f, scale) "
    "z = Add(h, b) ",
    "factors of groups": GROUPS + "i = Reciprocal(n) f = Mul(i, factors) o = Mul(g, f) "
    "l = Mul(m, f) j = Sub(offsets, l) h = Add(o, j) z = Reshape(h, whole) ",
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("batch", [1, 2])
def test_groups_of_channels_are_normalised_first(name: str, batch: int, tmp_path: Path) -> None:
    """As Keras writes it; the batch may have one image."""
    shapes = {key: np.array([batch, *CONSTANTS[key][1:]]) for key in ("halves", "whole")}
    nodes = FIRST + NORMS[name] + convolved("z", "y")
    exported = Exported(nodes, {"x": (batch, *SHAPE[1:])}, CONSTANTS | shapes)
    operators = exported.operators(tmp_path)
    assert operators.count("nn.group_norm") == 1
    assert operators.count("permute_dims") == 2
    exported.check(tmp_path)


STAYING = {
    "products of pixels": ("m = MatMul(r, p) e = MatMul(m, q) z = Add(r, e) ", 4),
    "normalised rows of products": (
        "n = LayerNormalization<axis = -1>(r, scale, b) m = MatMul(n, p) e = MatMul(m, q) "
        "z = Add(n, e) ",
        4,
    ),
    "anchors": ("a = Reshape(r, anchors) s = Softmax<axis = 2>(a) z = Reshape(s, whole) ", 4),
    "an order that is read twice": ("f = Reshape(r, flat) m = MatMul(f, dense) ", 2),
}
"""What needs channels last, and how many permutations are left."""


@pytest.mark.parametrize("name", STAYING)
def test_what_needs_channels_last(name: str, tmp_path: Path) -> None:
    nodes, left = STAYING[name]
    last = (
        convolved("z", "y")
        if " z =" in nodes
        else "s = Add(m, m) t = MatMul(f, dense) y = Add(s, t)"
    )
    exported = network(FIRST + nodes + last)
    assert permutations(exported, tmp_path) <= left
    exported.check(tmp_path)


def test_places_among_all_elements_depend_on_the_order(tmp_path: Path) -> None:
    nodes = FIRST + "f = Reshape(r, flat) i = ArgMax<axis = 1>(f) y = Cast<to = 1>(i)"
    network(nodes).check(tmp_path)


def test_a_tensor_of_another_order_is_not_permuted_for_one_that_is(tmp_path: Path) -> None:
    """Both would be permuted then."""
    exported = Exported(FIRST + "z = Mul(r, o) y = Relu(z)", {"x": SHAPE, "o": INNER}, CONSTANTS)
    assert permutations(exported, tmp_path) == 2
    exported.check(tmp_path)


STEPS = {
    "{0} = Relu({1}) ",
    "{0} = Mul({1}, scale) ",
    "{0} = Add({1}, {2}) ",
    "{0} = Mul({2}, {1}) ",
    "{0}_m = ReduceMean<axes = [1, 2]>({1}) {0} = Sub({2}, {0}_m) ",
    "{0}_g = Reshape({1}, halves) {0}_s = Softmax<axis = 4>({0}_g) {0} = Reshape({0}_s, whole) ",
    "{0}_m = MatMul({1}, p) {0} = MatMul({0}_m, q) ",
    convolved("{1}", "{0}", attributes=SAME).replace("({0}_n)", "({{}})").replace("{{}}", "{0}_n"),
    "{0}_l, {0}_r = Split<axis = 3>({1}) {0} = Concat<axis = 3>({0}_r, {0}_l) ",
    "{0}_t = Transpose<perm = [0, 2, 1, 3]>({1}) {0}_r = Relu({0}_t) "
    "{0} = Transpose<perm = [0, 2, 1, 3]>({0}_r) ",
}


@pytest.mark.parametrize("seed", range(6))
def test_any_network(seed: int, tmp_path: Path) -> None:
    """Steps in random order, each of which reads results of the ones before."""
    random, names, nodes = np.random.default_rng(seed), ["r"], FIRST
    for number in range(10):
        read = random.choice(names[-3:], 2)
        nodes += sorted(STEPS)[random.integers(len(STEPS))].format(f"v{number}", *read)
        names.append(f"v{number}")
    exported = network(re.sub(r"\s+", " ", nodes + convolved(names[-1], "y")))
    exported.check(tmp_path, seed, tolerance=1e-4)
