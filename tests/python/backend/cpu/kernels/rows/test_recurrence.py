# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, compared with their equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

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
)
from support.recurrent import recurrent_network
from tvm_ios.backend.cpu.kernels.rows.recurrence import pack_recurrent, recurrence_kernel
from tvm_ios.ops.recurrence import Recurrence, recurrence, recurrence_function
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.transform import InterOperatorSchedule

FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
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
}


def tensors(layer: Recurrence) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [(0.4 * random.standard_normal(s)).astype("float32") for s in layer.inputs]


def expected(layer: Recurrence, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The layer in double precision, step by step."""
    products, weights, *rest = (array.astype("float64") for array in inputs)
    bias = rest.pop(0) if layer.reset_after else 0.0
    states, f = list(rest), [FUNCTIONS[name] for name in layer.activations]
    products = products.swapaxes(0, 1) if layer.batch_first else products
    n, results = layer.hidden, np.zeros((layer.steps, layer.batch, layer.hidden))
    order = range(layer.steps)
    for t in reversed(order) if layer.backwards else order:
        h, x = states[0], products[t]
        both = h @ weights
        if layer.cell == "lstm":
            i, forget, g, o = (
                x[:, k * n : (k + 1) * n] + both[:, k * n : (k + 1) * n] for k in range(4)
            )
            states[1] = f[0](forget) * states[1] + f[0](i) * f[1](g)
            states[0] = f[0](o) * f[2](states[1])
        elif layer.cell == "gru":
            r, z = (
                f[0](x[:, k * n : (k + 1) * n] + both[:, k * n : (k + 1) * n]) for k in range(2)
            )
            after = r * (both[:, 2 * n :] + bias)
            new = f[1](
                x[:, 2 * n :] + (after if layer.reset_after else (r * h) @ weights[:, 2 * n :])
            )
            states[0] = (1 - z) * new + z * h
        else:
            states[0] = f[0](x + both)
        results[t] = states[0]
    return [results.swapaxes(0, 1) if layer.batch_first else results, *states]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, target: tvm.target.Target) -> None:
    layer, (core, _) = LAYERS[name], isa_of(target)
    inputs = tensors(layer)
    kernel = recurrence_kernel(layer, range(len(layer.outputs)), core, WORKERS)
    results = run_kernel(kernel, inputs, target)
    for result, wanted in zip(results, expected(layer, inputs), strict=True):
        assert_close(result, wanted, 1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_definitions(name: str) -> None:
    """What TVM compiles without a kernel of ours."""
    layer = LAYERS[name]
    inputs = tensors(layer)
    module = tvm.IRModule({"layer": recurrence_function(layer, "layer")})
    results = [tvm.runtime.tensor(poisoned_tensor(shape, "float32")) for shape in layer.outputs]
    tvm.compile(module, NATIVE)["layer"](*map(tvm.runtime.tensor, inputs), *results)
    for result, wanted in zip(results, expected(layer, inputs), strict=True):
        assert_close(result.numpy(), wanted, 1e-5)


@pytest.mark.parametrize("name", ["lstm", "gru", "gru reset after the product"])
def test_outputs_that_nobody_reads(name: str) -> None:
    layer, (core, _) = LAYERS[name], isa_of(NATIVE)
    inputs = tensors(layer)
    for place, wanted in enumerate(expected(layer, inputs)):
        (result,) = run_kernel(recurrence_kernel(layer, [place], core), inputs, NATIVE)
        assert_close(result, wanted, 1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_packed_weights(name: str) -> None:
    layer, (core, _) = LAYERS[name], isa_of(NATIVE)
    products, weights, *others = inputs = tensors(layer)
    kernel = recurrence_kernel(layer, [0], core, WORKERS, packed=True)
    packed = pack_recurrent(weights, layer, core, WORKERS)
    (result,) = run_kernel(kernel, [products, packed, *others], NATIVE)
    assert_close(result, expected(layer, inputs)[0], 1e-5)


@pytest.mark.parametrize("name", ["lstm", "gru", "gru reset after the product", "rnn"])
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
