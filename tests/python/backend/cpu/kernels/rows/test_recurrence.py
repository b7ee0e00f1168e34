# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, compared with their equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from support.aarch64 import run_by_qemu
from support.int8_dot4 import LIKE_AVX_VNNI, eight_lanes, neon_with
from support.networks import (
    NATIVE,
    TARGETS,
    WORKERS,
    assert_close,
    compile_plain,
    isa_of,
    poisoned_tensor,
    run_kernel,
    run_vm,
    x86,
)
from support.recurrent import recurrent_network
from tvm_ios.backend.cpu.core import Core, core_of
from tvm_ios.backend.cpu.isa.dot4 import AVX512
from tvm_ios.backend.cpu.kernels.rows.recurrence import (
    pack_quantized,
    pack_recurrent,
    recurrence_kernel,
)
from tvm_ios.ops.recurrence import Operands, Recurrence
from tvm_ios.ops.recurrence_function import recurrence, recurrence_function
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.target import resolve
from tvm_ios.transform import InterOperatorSchedule

FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, _: np.where(x < 0, a * np.expm1(x), x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "leakyrelu": lambda x, a, _: np.where(x < 0, a * x, x),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "softplus": lambda x, *_: np.log1p(np.exp(x)),
    "softsign": lambda x, *_: x / (1 + abs(x)),
    "thresholdedrelu": lambda x, a, _: np.where(x < a, 0, x),
}
LSTM = Recurrence("lstm", ("sigmoid", "tanh", "tanh"), 5, 3, 7)
GRU = Recurrence("gru", ("sigmoid", "tanh"), 5, 3, 7)
LAYERS = {
    "lstm": LSTM,
    "lstm of one row": replace(LSTM, batch=1, hidden=33),
    "lstm of many rows": replace(LSTM, batch=29, steps=2, backwards=True),
    "lstm of other functions": replace(LSTM, activations=("tanh", "relu", "sigmoid")),
    "gru": GRU,
    "gru of many rows": replace(GRU, batch=23, hidden=16, backwards=True, batch_first=True),
    "gru reset after the product": replace(GRU, reset_after=True, hidden=20),
    "gru reset after the product, many rows": replace(GRU, reset_after=True, batch=30, steps=4),
    "rnn": Recurrence("rnn", ("relu",), 6, 2, 40, backwards=True, batch_first=True),
    "rnn of many rows": Recurrence("rnn", ("tanh",), 3, 70, 19),
    "rnn of one row": Recurrence("rnn", ("tanh",), 3, 1, 300),
    "one step of one unit": replace(LSTM, steps=1, hidden=1),
    "lstm of several lengths": replace(LSTM, ragged=True, batch=9, backwards=True),
    "gru of several lengths": replace(GRU, ragged=True, batch=9, batch_first=True),
    "rnn of several lengths": Recurrence("rnn", ("tanh",), 4, 7, 9, ragged=True, clip=0.2),
    "lstm with peepholes": replace(LSTM, peepholes=True, clip=0.3),
    "lstm with coupled gates": replace(
        LSTM,
        coupled=True,
        peepholes=True,
        activations=("hardsigmoid", "softsign", "elu"),
        parameters=((0.3, 0.6), (0.0, 0.0), (0.7, 0.0)),
    ),
    "gru with parameters": replace(
        GRU,
        reset_after=True,
        clip=0.5,
        activations=("affine", "scaledtanh"),
        parameters=((0.3, 0.4), (1.3, 0.8)),
    ),
    "a step whose units are shared": replace(LSTM, steps=1, hidden=83, backwards=True),
    "a step of one row whose units are shared": replace(
        GRU, reset_after=True, steps=1, batch=1, hidden=90
    ),
    "a quantised step whose units are shared": replace(
        LSTM, quantized=True, steps=1, hidden=70, batch=2
    ),
    "steps whose units are shared": replace(LSTM, batch=1, hidden=190, backwards=True),
    "a paired layer": replace(LSTM, batch=1, hidden=190, paired=True),
    "steps of a gru whose units are shared": replace(
        GRU, reset_after=True, batch=1, hidden=215, batch_first=True
    ),
    "quantised steps whose units are shared": replace(
        LSTM, quantized=True, batch=1, hidden=190, steps=6
    ),
    "steps of a row that is shorter": replace(LSTM, ragged=True, batch=1, hidden=190),
    "a step of rows some of which are empty": replace(LSTM, ragged=True, steps=1, hidden=70),
    "quantised lstm": replace(LSTM, quantized=True),
    "quantised lstm of one row": replace(LSTM, quantized=True, batch=1, hidden=67, steps=9),
    "quantised lstm of many rows": replace(
        LSTM, quantized=True, batch=13, hidden=32, backwards=True, peepholes=True, ragged=True
    ),
    "lstm with other parameters": replace(
        LSTM,
        activations=("softplus", "leakyrelu", "thresholdedrelu"),
        parameters=((0.0, 0.0), (0.2, 0.0), (0.05, 0.0)),
    ),
}


def tensors(layer: Recurrence) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    arrays = [(0.4 * random.standard_normal(s)).astype(layer.dtype) for s in layer.inputs]
    if layer.quantized:
        arrays[1] = random.integers(-128, 128, arrays[1].shape, "int8")
        arrays[2] = (0.001 + 0.003 * random.random(arrays[2].shape)).astype("float32")
    if layer.ragged:  # none, all, and some steps
        place = len(arrays) - layer.states - 1
        arrays[place] = (np.arange(layer.batch) % (layer.steps + 1)).astype(layer.dtype)
        time = np.arange(layer.steps)[:, None] >= arrays[place]
        arrays[0][time.T if layer.batch_first else time] = np.nan
    return arrays


def expected(layer: Recurrence, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The layer in double precision, step by step."""
    arrays = [array.astype("float64") for array in inputs]
    if layer.quantized:
        arrays[1] *= arrays[2]
    given = layer.operands(arrays)
    lengths = np.full(layer.batch, layer.steps) if given.lengths is None else given.lengths
    states = [np.where(lengths[:, None] > 0, state, 0.0) for state in given.states]
    products = given.products.swapaxes(0, 1) if layer.batch_first else given.products
    results = np.zeros((layer.steps, layer.batch, layer.hidden))
    order = range(layer.steps)
    for t in reversed(order) if layer.backwards else order:
        inside = (t < lengths)[:, None]
        new = _stepped(layer, given, products[t], states)
        results[t] = np.where(inside, new[0], 0)
        states = [np.where(inside, a, b) for a, b in zip(new, states, strict=True)]
    return [results.swapaxes(0, 1) if layer.batch_first else results, *states]


def on_grid(rows: np.ndarray) -> np.ndarray:
    """Each row with its numbers rounded to 8 bits of its range, as DynamicQuantizeLinear does."""
    rows = rows.astype("float32")
    least, largest = (np.minimum(rows.min(1), 0), np.maximum(rows.max(1), 0))
    scale = np.where(largest > least, (largest - least) / np.float32(255), 1)[:, None]
    zero = np.rint(np.clip(-least[:, None] / scale, 0, 255))
    numbers = np.clip(np.rint(rows / scale) + zero, 0, 255)
    return (numbers - zero).astype("float64") * scale


def _stepped(
    layer: Recurrence, given: Operands, x: np.ndarray, states: list[np.ndarray]
) -> list[np.ndarray]:
    """The states after a step."""
    parameters = layer.parameters or [()] * len(layer.activations)
    f = [
        lambda x, name=name, own=own: FUNCTIONS[name](x, *own)
        for name, own in zip(layer.activations, parameters, strict=True)
    ]
    clip = (lambda x: x) if layer.clip is None else lambda x: np.clip(x, -layer.clip, layer.clip)
    n, h = layer.hidden, states[0]
    both = (on_grid(h) if layer.quantized else h) @ given.weights
    x, r = ([v[:, k * n : (k + 1) * n] for k in range(layer.gates)] for v in (x, both))
    if layer.cell == "rnn":
        return [f[0](clip(x[0] + r[0]))]
    if layer.cell == "gru":
        reset, z = (f[0](clip(x[k] + r[k])) for k in range(2))
        bias = given.bias if layer.reset_after else 0
        own = (
            reset * (r[2] + bias) if layer.reset_after else (reset * h) @ given.weights[:, 2 * n :]
        )
        return [(1 - z) * f[1](clip(x[2] + own)) + z * h]
    c, peepholes = states[1], given.peepholes if layer.peepholes else np.zeros((3, n))
    i, forget = (f[0](clip(x[k] + r[k] + peepholes[k] * c)) for k in range(2))
    c = (1 - i if layer.coupled else forget) * c + i * f[1](clip(x[2] + r[2]))
    return [f[0](clip(x[3] + r[3] + peepholes[2] * c)) * f[2](c), c]


def check(
    layer: Recurrence, target: tvm.target.Target, core: Core, run: Callable = run_kernel
) -> None:
    inputs = tensors(layer)
    kernel = recurrence_kernel(layer, range(len(layer.outputs)), core, WORKERS)
    given = list(inputs)
    if layer.quantized:
        given[1], given[2], sums = pack_quantized(*inputs[1:3], layer, core, WORKERS)
        given.append(sums)
    results = run(kernel, given, target)
    for result, wanted in zip(results, expected(layer, inputs), strict=True):
        assert_close(result, wanted, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, target: tvm.target.Target) -> None:
    check(LAYERS[name], target, isa_of(target)[0])


QUANTIZED = [name for name in LAYERS if LAYERS[name].quantized]


@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize("target", [x86("skylake-avx512", "avx512bw")])
def test_bytes_without_instructions_for_four(name: str, target: tvm.target.Target) -> None:
    assert core_of(target).int8_dot4 == AVX512[1]
    check(LAYERS[name], target, core_of(target))


@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize("target", LIKE_AVX_VNNI)
def test_bytes_of_eight_lanes(name: str, target: tvm.target.Target) -> None:
    check(LAYERS[name], target, eight_lanes())


@pytest.mark.parametrize(
    "name", ["quantised lstm of many rows", "quantised steps whose units are shared"]
)
@pytest.mark.parametrize("feature", ["+dotprod", "+i8mm"])
def test_bytes_of_aarch64(name: str, feature: str, tmp_path: Path) -> None:
    """``sdot`` subtracts 128 from the states, which ``usdot`` does not."""
    target = neon_with(feature)
    check(LAYERS[name], target, core_of(target), partial(run_by_qemu, folder=tmp_path))


def test_states_that_are_no_numbers() -> None:
    """They are not rounded to one, but for other rows."""
    layer, (core, _) = LAYERS["quantised lstm"], isa_of(NATIVE)
    inputs = tensors(layer)
    inputs[-2][1, 2] = np.nan
    weights, scales, sums = pack_quantized(*inputs[1:3], layer, core, WORKERS)
    kernel = recurrence_kernel(layer, [1], core, WORKERS)
    (last,) = run_kernel(kernel, [inputs[0], weights, scales, *inputs[3:], sums], NATIVE)
    assert np.isnan(last).all(axis=1).tolist() == [False, True, False]


def run_definition(layer: Recurrence) -> list[np.ndarray]:
    module = tvm.IRModule({"layer": recurrence_function(layer, "layer")})
    results = [tvm.runtime.tensor(poisoned_tensor(shape, layer.dtype)) for shape in layer.outputs]
    tvm.compile(module, NATIVE)["layer"](*map(tvm.runtime.tensor, tensors(layer)), *results)
    return [result.numpy() for result in results]


@pytest.mark.parametrize("name", LAYERS)
def test_definitions(name: str) -> None:
    """What TVM compiles without a kernel of ours."""
    layer = LAYERS[name]
    for result, wanted in zip(run_definition(layer), expected(layer, tensors(layer)), strict=True):
        assert_close(result, wanted, 1e-5)


def test_definitions_in_double_precision() -> None:
    layer = replace(LAYERS["lstm of several lengths"], dtype="float64", peepholes=True, clip=0.7)
    for result, wanted in zip(run_definition(layer), expected(layer, tensors(layer)), strict=True):
        assert_close(result, wanted, 1e-14)


@pytest.mark.parametrize("name", ["lstm", "gru", "gru reset after the product"])
def test_outputs_that_nobody_reads(name: str) -> None:
    layer, (core, _) = LAYERS[name], isa_of(NATIVE)
    inputs = tensors(layer)
    for place, wanted in enumerate(expected(layer, inputs)):
        (result,) = run_kernel(recurrence_kernel(layer, [place], core), inputs, NATIVE)
        assert_close(result, wanted, 1e-5)


@pytest.mark.parametrize("name", [name for name in LAYERS if not LAYERS[name].quantized])
def test_packed_weights(name: str) -> None:
    layer, (core, _) = LAYERS[name], isa_of(NATIVE)
    products, weights, *others = inputs = tensors(layer)
    kernel = recurrence_kernel(layer, [0], core, WORKERS, packed=True)
    packed = pack_recurrent(weights, layer, core, WORKERS)
    (result,) = run_kernel(kernel, [products, packed, *others], NATIVE)
    assert_close(result, expected(layer, inputs)[0], 1e-5)


GENERAL = [
    "lstm of several lengths",
    "gru of several lengths",
    "lstm with coupled gates",
    "gru with parameters",
    "lstm with other parameters",
]


@pytest.mark.parametrize("name", ["lstm", "gru", "gru reset after the product", "rnn", *GENERAL])
@pytest.mark.parametrize("way", ["kernel", "unrolled", "by TVM"])
def test_networks(name: str, way: str) -> None:
    """By the kernel, by operators of all steps, and by TVM alone."""
    mod = recurrent_network(LAYERS[name])
    data, *others = inputs = tensors(LAYERS[name])
    if way == "kernel":
        schedule = InterOperatorSchedule(NATIVE, search=False)
        mod = schedule(mod)
        assert "recurrence" in [op.kind for op in schedule.schedule.operators]
    elif way == "unrolled":
        mod = prepare(mod, recurrences=False)
        assert "call_tir" not in str(mod)
    results = run_vm(compile_plain(mod), inputs)
    outputs = expected(LAYERS[name], [-data, *others])
    wanted = [np.tanh(value) for value in (outputs[-1], outputs[0])]
    for result, value in zip(results, wanted, strict=True):
        assert_close(result, value, 1e-5)


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("search", [False, True])
def test_networks_whose_steps_are_shared(
    search: bool, checks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By drivers, which may check what each step waits for, and by what measures kernels."""
    layer = LAYERS["steps whose units are shared"]
    data, *others = inputs = tensors(layer)
    target = resolve("llvm", threads=WORKERS)
    if checks:
        monkeypatch.setenv("TVM_IOS_CHECK_WAITS", "1")
    schedule = InterOperatorSchedule(target, search=search, max_group_size=1)
    results = run_vm(compile_plain(schedule(recurrent_network(layer))), inputs)
    outputs = expected(layer, [-data, *others])
    for result, value in zip(results, (outputs[-1], outputs[0]), strict=True):
        assert_close(result, np.tanh(value), 1e-5)


def test_the_whole_tuple_is_not_taken_apart() -> None:
    """A tuple that is a result is left to TVM."""
    builder = relax.BlockBuilder()
    layer = LAYERS["gru"]
    parameters = [
        relax.Var(f"x{n}", relax.TensorType(shape, "float32"))
        for n, shape in enumerate(layer.inputs)
    ]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(recurrence(builder, layer, parameters))
        builder.emit_func_output(result)
    inputs = tensors(layer)
    mod = InterOperatorSchedule(NATIVE, search=False)(builder.get())
    for result, value in zip(
        run_vm(compile_plain(mod), inputs), expected(layer, inputs), strict=True
    ):
        assert_close(result, value, 1e-5)
