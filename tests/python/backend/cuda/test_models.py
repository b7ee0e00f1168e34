# SPDX-License-Identifier: Apache-2.0
"""Whole networks compute for CUDA what TVM computes on the CPU, however stages are divided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.cuda.fake_driver import Emulated, plain
from support.cuda.whole import WAITS, compile_whole, journals, run_whole
from support.networks import (
    assert_close,
    compile_plain,
    constant,
    conv,
    random_arguments,
    relax_module,
    run_vm,
)
from support.recurrent import recurrent_network
from tvm_ios.ops.deformed import Columns, deformed_columns
from tvm_ios.ops.recurrence import Recurrence
from tvm_ios.ops.region_parts import RegionPool
from tvm_ios.ops.regions import pool_regions

op = relax.op
DIVISIONS = ["streams", "streams-2", "streams-widest", "fused"]
QUICK = tvm.target.Target({"kind": "llvm", "opt-level": 1})
"""The reference runs once."""


def images(emit, x, y):
    """Images, two at a time; what is read inside, an input, and numbers leave the network, too."""
    a = emit(op.nn.relu(emit(conv(x, 12))))
    b = emit(conv(x, 20, 1, seed=1))
    c = emit(op.nn.max_pool2d(x, (3, 3), padding=(1, 1)))
    d = emit(op.nn.conv2d(x, constant(8, 1, 3, 3, seed=2), groups=8, padding=1))
    e = emit(op.nn.conv2d(x, constant(8, 4, 3, 3, seed=3), groups=2, padding=1))
    joined = emit(op.concat([a, b, c, d, e], axis=1))
    halved = emit(op.nn.avg_pool2d(emit(conv(joined, 6, 1, seed=4)), (2, 2), (2, 2)))
    turned = emit(op.permute_dims(halved, [0, 2, 3, 1]))
    flat = emit(op.reshape(emit(op.nn.adaptive_avg_pool2d(joined, (1, 1))), (2, 56)))
    scores = emit(op.nn.softmax(emit(op.matmul(flat, y))))
    largest = emit(op.argmax(halved, 1))
    return relax.Tuple([a, relax.Tuple([scores, y]), turned, largest])


def tokens(emit, x, y):
    """Numbers of words, vectors of them, four axes that are no images, constants of all types."""
    words = emit(op.take(constant(8, 16), x, axis=0))
    places = emit(op.take(constant(8, 16, seed=1), y, axis=0))
    z = emit(op.reshape(emit(op.add(words, places)), (2, 3, 4, 16)))
    q, k, v = (emit(op.matmul(z, constant(16, 16, seed=s))) for s in (2, 3, 4))
    shares = emit(op.nn.softmax(emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))))
    mixed = emit(op.add(emit(op.matmul(shares, v)), z))
    normal = emit(op.nn.layer_norm(mixed, constant(16), constant(16, seed=5), [-1]))
    random = np.random.default_rng(0)
    chosen = emit(op.where(relax.const(random.random((3, 4, 16)) > 0.5), normal, z))
    half = emit(op.astype(relax.const(random.random(16).astype("float16")), "float32"))
    moved = emit(op.add(x, relax.const(np.array([3], "int32"))))
    far = emit(op.add(y, relax.const(np.arange(12).reshape(1, 12) + 2**40, "int64")))
    return relax.Tuple([emit(op.multiply(chosen, half)), moved, far])


TOKENS = (relax.TensorType((2, 12), "int32"), relax.TensorType((2, 12), "int64"))
SLOW = pytest.mark.slow
NETWORKS = {
    "randwire": tvm_ios.zoo.load("randwire_tiny"),
    "images": relax_module(images, (2, 8, 10, 8), (56, 10)),
    "tokens": relax_module(tokens, *TOKENS),
}


def on_the_cpu(mod: tvm.IRModule, arguments: Sequence[Sequence[np.ndarray]]) -> list:
    executable = compile_plain(mod, QUICK)
    return [run_vm(executable, some) for some in arguments]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=SLOW if n == "randwire" else ()) for n in NETWORKS]
)
def test_models(emulated: Emulated, name: str) -> None:
    mod = NETWORKS[name]
    partitionings = emulated.call(compile_whole, name, mod, DIVISIONS)
    assert "fused" in partitionings["fused"]
    assert "streams-2" in partitionings["streams-2"]
    given = [random_arguments(mod, seed=seed) for seed in (1, 2)]
    expected = on_the_cpu(mod, given)
    for variant in partitionings:
        stages, runs = emulated.call(journals, name, variant, given[0], 2)
        if variant == WAITS:
            check_waits(runs, stages)
        else:
            check_journals(runs, stages)
        # Replays, with other values at other addresses.
        for order, i in (("issued", 0), ("reverse", 1), ("1", 0)):
            made = emulated.call(run_whole, name, variant, given[i], order)
            for actual, wanted in zip(made, expected[i], strict=True):
                assert_close(actual, wanted, 1e-5)


def test_recurrent_layers_are_unrolled(emulated: Emulated) -> None:
    mod = recurrent_network(Recurrence("gru", ("sigmoid", "tanh"), 3, 2, 5, backwards=True))
    emulated.call(compile_whole, "recurrent", mod, ["streams"])
    given = random_arguments(mod)
    made = emulated.call(run_whole, "recurrent", "streams", given)
    (expected,) = on_the_cpu(mod, [given])
    for actual, wanted in zip(made, expected, strict=True):
        assert_close(actual, wanted, 1e-5)


def test_regions_are_pooled(emulated: Emulated) -> None:
    """By loops whose lengths are known when they run."""

    def body(emit, data, regions):
        pool = RegionPool("average", (2, 3), samples=0, half_pixel=True)
        images = relax.const([1, 0, 1], "int64")
        found = pool_regions(relax.BlockBuilder.current(), pool, data, regions, images)
        return emit(op.negative(found))

    mod = relax_module(body, (2, 3, 8, 9), (3, 4))
    emulated.call(compile_whole, "regions", mod, ["streams"])
    given = random_arguments(mod)
    given[1] = 9 * abs(given[1]).cumsum(1)
    made = emulated.call(run_whole, "regions", "streams", given)
    (expected,) = on_the_cpu(mod, [given])
    for actual, wanted in zip(made, expected, strict=True):
        assert_close(actual, wanted, 1e-5)


def test_columns_of_a_deformed_convolution(emulated: Emulated) -> None:
    columns = Columns(1, 6, 7, 8, (6, 5), (3, 3), (1, 1), (1, 0), (1, 1), 2, masked=True)

    def body(emit, *inputs):
        found = deformed_columns(relax.BlockBuilder.current(), columns, inputs)
        return emit(op.negative(found))

    mod = relax_module(body, *columns.inputs)
    emulated.call(compile_whole, "deformed", mod, ["streams"])
    given = random_arguments(mod)
    made = emulated.call(run_whole, "deformed", "streams", given)
    (expected,) = on_the_cpu(mod, [given])
    for actual, wanted in zip(made, expected, strict=True):
        assert_close(actual, wanted, 1e-5)


def test_two_models_in_turn(emulated: Emulated) -> None:
    """Each keeps what is its own: after all of them, every one still computes what it did."""
    names = ["images", "tokens"]
    for name in names:
        emulated.call(compile_whole, name, NETWORKS[name], DIVISIONS)
    given = {name: random_arguments(NETWORKS[name]) for name in names}
    first = {name: emulated.call(run_whole, name, "streams", given[name]) for name in names}
    for _ in range(2):
        for name in names:
            made = emulated.call(run_whole, name, "streams", given[name])
            for actual, wanted in zip(made, first[name], strict=True):
                np.testing.assert_array_equal(actual, wanted)


def check_journals(runs: list[list[str]], stages: list[tuple[int, int]]) -> None:
    """Of a first run, which captures all stages as one graph, and of a second, which replays it."""
    assert not any("misuse" in line for run in runs for line in run)
    first, second = map(plain, runs)
    check_captured(first, stages)
    (replay,) = (line for line in second if line.startswith("replay"))
    assert len(replay.split()[3:]) == sum(launches for launches, _ in stages)
    around = [line for line in second if line.startswith("launch tvm_ios")]
    assert all("_copy_" in line for line in around)


def check_waits(runs: list[list[str]], stages: list[tuple[int, int]]) -> None:
    """All launches are one program, whose streams are forked and joined once."""
    assert not any("misuse" in line for run in runs for line in run)
    first, second = map(plain, runs)
    lines = captured(first)
    work = [words for words in lines if words[0] == "launch"]
    assert len(work) == sum(launches for launches, _ in stages)
    streams = len({words[2] for words in work})
    assert streams >= max(streams for _, streams in stages) > 1
    fork = [words[0] for words in lines[:streams]]
    assert fork == ["record"] + ["wait"] * (streams - 1)
    (replay,) = (line for line in second if line.startswith("replay"))
    assert len(replay.split()[3:]) == len(work)


def check_captured(journal: list[str], stages: list[tuple[int, int]]) -> None:
    """One capture, in which every launch follows all of the stages before its own."""
    before = ends_before(captured(journal))
    assert len(before) == sum(launches for launches, _ in stages)
    first = 0
    for launches, _ in stages:
        for launch in range(first, first + launches):
            assert before[launch] >= set(range(first))
        first += launches


def captured(journal: list[str]) -> list[list[str]]:
    """The words of the lines of the one capture."""
    (begin,) = (i for i, line in enumerate(journal) if line.startswith("begin"))
    (end,) = (i for i, line in enumerate(journal) if line.startswith("end"))
    return [line.split() for line in journal[begin + 1 : end]]


def ends_before(lines: list[list[str]]) -> list[set[int]]:
    """For each launch of a capture those that end before it begins, by streams and events."""
    on: defaultdict[str, set[int]] = defaultdict(set)
    recorded: dict[str, set[int]] = {}
    before: list[set[int]] = []
    for word, *rest in lines:
        if word == "launch":
            before.append(set(on[rest[-1]]))
            on[rest[-1]].add(len(before) - 1)
        elif word == "record":
            recorded[rest[0]] = set(on[rest[1]])
        else:
            assert word == "wait"
            on[rest[0]] |= recorded[rest[1]]
    return before
