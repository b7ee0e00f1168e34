# SPDX-License-Identifier: Apache-2.0
"""Random networks, compiled in random ways, compute what other implementations compute.

A short run of ``make fuzz``, whose seeds are fixed; and what that tool rests on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from fuzz.choices import random_choices
from fuzz.compare import difference, half_difference
from fuzz.draw import Draw, Refused
from fuzz.generate import random_network, random_of
from fuzz.network import HALVES, Network, Node, Tensor
from fuzz.older import in_opset
from fuzz.onnx_front import (
    OPSETS,
    OnnxEvaluator,
    double_reference,
    evaluate,
    run_model,
    to_model,
)
from fuzz.operators import TABLES
from fuzz.outcome import AGREES, CRASHES, HANGS, Reduction
from fuzz.processes import Process
from fuzz.reference import Reference, Wrong
from fuzz.relax_front import RelaxEvaluator
from fuzz.specials import comparable
from fuzz.writing import written_otherwise

SEEDS = range(30)


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    process = Process(timeout=120.0)
    yield process
    process.close()


@pytest.mark.slow
def test_results_are_those_of_the_reference(process: Process) -> None:
    outcomes = [process.run(seed) for seed in SEEDS]
    assert not [(o.seed, o.detail) for o in outcomes if o.found]
    assert Counter(o.status for o in outcomes)[AGREES] >= 0.9 * len(SEEDS)


def test_a_model_is_written_in_several_ways() -> None:
    """ONNX Runtime computes the same of each, as far as it knows the types."""
    found = Counter()
    for seed in range(60):
        network = random_network(seed)
        if network.front != "onnx" or any(t.dtype in HALVES for t in network.types.values()):
            continue
        model = to_model(network)
        written = written_otherwise(model, random_of(seed, "writing"))
        found.update({node.op_type for node in written.graph.node} & {"If", "Loop", "Part"})
        found["constants"] += len(model.graph.initializer) - len(written.graph.initializer)
        results = (run_model(each, network.examples) for each in (model, written))
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)
    assert found.keys() == {"If", "Loop", "Part", "constants"}


@pytest.mark.slow
def test_results_at_any_sizes(process: Process) -> None:
    """Networks that leave dimensions open, called at five sizes each; few refuse all of them."""
    opened = Reduction(chosen={"open": "True"})
    seeds = [seed for seed in range(2000, 2060) if random_network(seed).front == "onnx"]
    outcomes = [process.run(seed, opened) for seed in seeds[:24]]
    assert not [(o.seed, o.detail) for o in outcomes if o.found]
    kinds = [o.kind for o in outcomes if o.status == AGREES and o.kind.startswith("open")]
    served = [kind for kind in kinds if "0 of" not in kind]
    assert len(served) >= 0.7 * len(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_a_seed_decides_all(seed: int, process: Process) -> None:
    assert str(random_network(seed)) == str(random_network(seed))
    one, other = random_network(seed), random_network(seed)
    for name, array in (one.constants | one.examples).items():
        np.testing.assert_array_equal(array, (other.constants | other.examples)[name])
    assert process.run(seed) == process.run(seed)
    choices = {str(random_choices(random_of(s, "choices"))) for s in range(20)}
    assert len(choices) > 15


@pytest.mark.slow
def test_a_process_that_ends_or_does_not_answer_is_an_outcome() -> None:
    process = Process(timeout=120.0)
    assert process.run(0, Reduction(chosen={"nonsense": "1"})).status == CRASHES
    assert process.run(0).status == AGREES  # in a new process
    process.timeout = 0.0
    assert process.run(0).status == HANGS
    process.close()


@pytest.mark.parametrize("front", TABLES)
def test_operators_are_valid_by_construction(front: str) -> None:
    """Each is found room for in a network that has a bit of everything."""
    missed = []
    for name, entry in {**TABLES[front].operators, **TABLES[front].motifs}.items():
        for seed in range(20):
            evaluator = OnnxEvaluator((20, 23)[seed % 2]) if front == "onnx" else RelaxEvaluator()
            draw = Draw(np.random.default_rng(seed), evaluator)
            for dtype in ("float32", "float32", "int64", "bool", "uint8"):
                draw.input(draw.shape(draw.pick([4, 3, 2])), dtype)
            try:
                entry.generator(draw)
            except Refused:
                continue
            assert draw.nodes
            break
        else:
            missed.append(name)
    assert not missed


@pytest.mark.slow
def test_networks_have_what_is_rare_in_files() -> None:
    """Inputs, constants and values twice among the outputs; axes without elements; NaN."""
    seen: Counter[str] = Counter()
    for seed in range(300):
        network = random_network(seed)
        outputs = network.outputs
        seen["inputs"] += any(name in network.inputs for name in outputs)
        seen["constants"] += any(name in network.constants for name in outputs)
        seen["twice"] += len(set(outputs)) < len(outputs)
        seen["nothing"] += any(0 in tensor.shape for tensor in network.types.values())
        seen["batches"] += any(t.shape[0] > 1 for t in network.types.values() if len(t.shape) == 4)
        seen["specials"] += comparable(network)
        read = {name for node in network.nodes for name in node.inputs}
        seen["unused"] += any(name not in {*read, *outputs} for name in network.inputs)
    assert all(seen[what] >= 3 for what in seen), seen
    assert len(seen) == 7


def test_what_is_cut_becomes_an_input() -> None:
    network = next(n for n in map(random_network, range(99)) if len(n.nodes) > 5)
    values = Reference(network, network.examples).values
    node = network.nodes[len(network.nodes) // 2]
    cut = network.cut({name: values[name] for name in node.outputs})
    assert set(node.outputs) <= cut.inputs.keys()
    assert len(cut.nodes) < len(network.nodes)
    again = Reference(cut, cut.examples).values
    for name in network.outputs:
        np.testing.assert_allclose(again[name], values[name], rtol=1e-6)


def test_what_counts_as_a_difference() -> None:
    random = np.random.default_rng(0)
    exact = random.standard_normal(100)
    single = exact.astype("float32")

    def wrong(actual: np.ndarray, terms: int = 1, nudged: np.ndarray | None = None) -> str | None:
        return difference(actual, single, "float32", terms, lambda: exact, lambda: nudged)

    assert wrong(single) is None
    assert wrong(single * np.float32(1 + 2**-21)) is None
    off = single.copy()
    off[7] += np.float32(1e-4)
    assert "at [7]" in str(wrong(off))
    off[7] = single[7] + np.float32(2e-5)
    assert "at [7]" in str(wrong(off))
    assert wrong(off, terms=100_000) is None
    assert wrong(off, nudged=exact + 2e-6) is None  # as much as the inputs' own rounding explains
    assert wrong(off, nudged=exact + 1e-8) is not None
    off[7] = np.nan
    assert wrong(off) is not None
    assert difference(off, off.copy(), "float32", 1, lambda: None, lambda: None) is None
    assert wrong(single[:50]) is not None
    rounded = single.astype("float64")
    wide = (rounded * (1 + 2**-22), rounded)
    assert difference(*wide, "float64", 1, lambda: None, lambda: None) is not None
    assert (
        difference(*wide, "float32", 1, lambda: None, lambda: None) is None
    )  # computed in float32 before
    assert (
        difference(np.arange(3), np.array([0, 1, 3]), "", 1, lambda: None, lambda: None) is not None
    )


def test_moved_numbers_may_give_another_shape() -> None:
    """As scales of an image do; what is a number must be one nevertheless."""
    image, larger = np.ones((2, 3), "float32"), np.ones((2, 4))
    lost = np.where(np.arange(3) == 1, np.nan, image)
    for actual, agrees in ((image, True), (lost.astype("float32"), False)):
        told = half_difference(actual, image, lambda: image.astype("float64"), lambda: larger)
        assert (told is None) == agrees


def test_a_wrong_result_is_told() -> None:
    network = random_network(0)
    reference = Reference(network, network.examples)
    results = [reference.values[name].copy() for name in network.outputs]
    reference.check(results)
    place = next(i for i, array in enumerate(results) if array.dtype.kind == "f" and array.size)
    results[place].reshape(-1)[-1] += 1
    with pytest.raises(Wrong, match=network.outputs[place]):
        reference.check(results)


def test_double_precision_and_its_neighbours() -> None:
    """Also of an operator that reads a value twice; what is exact is not moved."""
    types = {name: Tensor((2, 8), "float32") for name in ("x", "ones", "less", "twice")}
    nodes = (
        Node("Clip", ("x", "", "one"), ("ones",)),
        Node("Tanh", ("ones",), ("less",)),
        Node("Add", ("less", "less"), ("twice",)),
    )
    constants = {"one": np.array(1, "float32")}
    inputs = {"x": types["x"]}
    examples = {"x": np.full((2, 8), 3, "float32")}
    network = Network("onnx", 17, inputs, constants, nodes, ("twice",), types, examples)
    moved = double_reference(network, examples, lambda array: array + 1e-7)
    assert (moved["ones"] == 1).all()
    np.testing.assert_allclose(moved["less"], np.tanh(1) + 1e-7, rtol=0, atol=1e-12)
    np.testing.assert_allclose(moved["twice"], 2 * moved["less"] + 1e-7, rtol=0, atol=1e-12)


def test_older_operator_sets_have_attributes_for_operands() -> None:
    constants = {"axes": np.array([0, 2]), "high": np.array(3, "float32"), "steps": np.array([2])}
    squeeze = Node("Squeeze", ("x", "axes"), ("y",))
    clip = Node("Clip", ("x", "", "high"), ("y",))
    resize = Node("Resize", ("x", "", "scales"), ("y",), {"mode": "nearest"})
    assert in_opset(squeeze, 13, constants) == squeeze
    assert in_opset(squeeze, 12, constants) == Node("Squeeze", ("x",), ("y",), {"axes": [0, 2]})
    assert in_opset(clip, 10, constants) == Node("Clip", ("x",), ("y",), {"max": 3.0})
    named = in_opset(resize, 9, constants)
    assert (named.op, named.inputs) == ("Upsample", ("x", "scales"))
    assert in_opset(resize, 10, constants).inputs == ("x", "scales")
    for node, opset in (
        (Node("Slice", ("x", "axes", "axes", "axes", "steps"), ("y",)), 9),
        (Node("Squeeze", ("x", "computed"), ("y",)), 12),
        (Node("Gelu", ("x",), ("y",)), 19),
    ):
        with pytest.raises(Refused):
            in_opset(node, opset, constants)


@pytest.mark.slow
def test_networks_of_all_operator_sets_and_types() -> None:
    kinds = Counter(random_network(seed).kind for seed in range(400))
    onnx = {tuple(kind.split()[1:]) for kind in kinds if kind.startswith("onnx")}
    assert {int(opset) for opset, _ in onnx} == set(OPSETS)
    assert {dtype for _, dtype in onnx} >= {"float16", "bfloat16", "float32"}
    assert all(int(opset) >= 13 for opset, dtype in onnx if dtype == "bfloat16")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_operators_of_16_bits_are_rounded_from_single_precision(dtype: str) -> None:
    x, y = (np.random.default_rng(seed).standard_normal(50).astype(dtype) for seed in (0, 1))
    (total,) = evaluate(Node("Add", ("x", "y"), ("z",)), 13, [x, y])
    np.testing.assert_array_equal(total, (x.astype("float32") + y.astype("float32")).astype(dtype))
    (cast,) = evaluate(Node("Cast", ("x",), ("z",), {"to": dtype}), 13, [x.astype("float64")])
    assert (cast.dtype, cast.tolist()) == (x.dtype, x.tolist())
    if dtype == "bfloat16":
        with pytest.raises(Refused, match="unsupported type"):
            evaluate(Node("Relu", ("x",), ("z",)), 12, [x])
    sequence = Node("SequenceConstruct+ConcatFromSequence", ("x", "x"), ("z",), {"axis": 0})
    with pytest.raises(Refused):
        evaluate(sequence, 10, [x, x])


def test_a_result_of_16_bits_is_as_near_as_the_reference() -> None:
    exact = np.linspace(1, 2, 64)
    rounded = exact.astype("float16")

    def wrong(actual: np.ndarray, expected: np.ndarray) -> str | None:
        return difference(actual, expected, "float16", 1000, lambda: exact, lambda: None)

    assert wrong(rounded, rounded) is None
    off = (exact + 0.01).astype("float16")
    assert wrong(off, rounded) is not None
    assert wrong(rounded, off) is None  # ours is nearer
