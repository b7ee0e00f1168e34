# SPDX-License-Identifier: Apache-2.0
"""Random networks whose rows, or positions, are said not to meet: they never do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import UNOPTIMISED, call_vm, compile_plain, constant, relax_module
from tvm_ios.compiler.dependence.servable import find_servable
from tvm_ios.rewrite.prepare import prepare

op = relax.op
Emit = Callable[[relax.Expr], relax.Var]
_OPERATORS = 6
_NETWORKS = 30


class RandomNetwork:
    """A network of random operators on ``[batch, 4, 6]``, the same in all batch sizes."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, emit: Emit, x: relax.Var) -> relax.Expr:
        self._random, self._emit = np.random.default_rng(self._seed), emit
        values = [x]
        while len(values) <= _OPERATORS:
            values.append(self._step(values))
        return values[-1]

    def _step(self, values: list[relax.Var]) -> relax.Var:
        x, other = (values[-1 - int(self._random.integers(min(2, len(values))))] for _ in "ab")
        # What mixes rows is rarer, so that enough networks have none of it.
        steps = [*[self._elementwise, self._reduced, self._moved, self._product] * 3, self._parts]
        return steps[int(self._random.integers(len(steps)))](x, other)

    def _axis(self) -> int:
        return int(self._random.choice(3, p=[0.2, 0.4, 0.4]))

    def _elementwise(self, x: relax.Var, other: relax.Var) -> relax.Var:
        calls = [
            lambda: op.add(x, other),
            lambda: op.multiply(x, other),
            lambda: op.maximum(x, relax.const(0.0, "float32")),
            lambda: op.tanh(x),
            lambda: op.where(op.less(x, constant(6)), other, constant(4, 6)),
            lambda: op.subtract(x, constant(6)),
        ]
        return self._chosen(calls)

    def _reduced(self, x: relax.Var, other: relax.Var) -> relax.Var:
        axis = self._axis()
        reduced = self._chosen(
            [
                lambda: op.sum(x, [axis], keepdims=True),
                lambda: op.max(x, [axis], keepdims=True),
                lambda: op.mean(x, [axis], keepdims=True),
            ]
        )
        spread = [
            lambda: op.add(other, reduced),
            lambda: op.nn.softmax(x, axis),
            lambda: op.cumsum(x, axis),
            lambda: op.flip(x, axis),
            lambda: op.sort(x, axis),
        ]
        return self._chosen(spread)

    def _moved(self, x: relax.Var, other: relax.Var) -> relax.Var:
        """Return a step in another shape, and back."""
        batch = int(x.ty.shape[0])
        orders = [[0, 2, 1], [1, 0, 2], [2, 1, 0], [1, 2, 0]]
        order = orders[int(self._random.choice(4, p=[0.4, 0.2, 0.2, 0.2]))]
        back = [order.index(axis) for axis in range(3)]
        shapes = [(batch * 2, 12), (batch * 4, 6), (batch, 24), (batch * 8, 3), (24, batch)]
        shape = shapes[int(self._random.choice(5, p=[0.22, 0.22, 0.22, 0.22, 0.12]))]
        if self._random.random() < 0.5:
            moved = self._emit(op.permute_dims(x, order))
            merged = self._emit(op.reshape(moved, (int(moved.ty.shape[0]), -1)))
            inner = self._emit(op.nn.softmax(merged, 1)) if order[0] == 0 else merged
            shaped = self._emit(op.reshape(inner, moved.ty.shape))
            return self._emit(op.permute_dims(shaped, back))
        inner = self._emit(op.nn.softmax(self._emit(op.reshape(x, shape)), 1))
        return self._emit(op.reshape(inner, (batch, 4, 6)))

    def _product(self, x: relax.Var, other: relax.Var) -> relax.Var:
        if self._random.random() < 0.5:
            return self._emit(op.matmul(x, constant(6, 6, scale=0.5)))
        order = [1, 2, 0] if self._random.random() < 0.1 else [0, 2, 1]
        if order[0] == 1:  # products of rows with each other
            flat = self._emit(op.reshape(x, (int(x.ty.shape[0]), 24)))
            scores = self._emit(op.matmul(flat, self._emit(op.permute_dims(flat, [1, 0]))))
            mixed = self._emit(op.matmul(self._emit(op.nn.softmax(scores, -1)), flat))
            return self._emit(op.reshape(mixed, x.ty.shape))
        scores = self._emit(op.matmul(x, self._emit(op.permute_dims(other, order))))
        return self._emit(op.matmul(self._emit(op.nn.softmax(scores, -1)), other))

    def _parts(self, x: relax.Var, other: relax.Var) -> relax.Var:
        axis = self._axis()
        size = int(x.ty.shape[axis])
        both = self._emit(op.concat([x, other], axis))
        begin = int(self._random.integers(size + 1))
        return self._emit(op.strided_slice(both, [axis], [begin], [begin + size]))

    def _chosen(self, calls: list[Callable[[], relax.Expr]]) -> relax.Var:
        return self._emit(calls[int(self._random.integers(len(calls)))]())


def hard_numbers(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return numbers of all magnitudes and both signs, and zeros."""
    numbers = random.standard_normal(shape) * 10.0 ** random.integers(-6, 6, shape)
    return np.where(random.random(shape) < 0.2, 0.0, numbers).astype("float32")


def compiled(module: tvm.IRModule) -> Any:
    executable = compile_plain(module, UNOPTIMISED)
    return relax.VirtualMachine(executable, tvm.cpu())


@pytest.fixture(scope="module")
def verdicts() -> dict[int, tuple[list[tvm.IRModule], bool]]:
    """Return random networks of one and four rows, and whether their rows are said to be apart."""
    found = {}
    for seed in range(_NETWORKS):
        modules = [prepare(relax_module(RandomNetwork(seed), (n, 4, 6))) for n in (1, 4)]
        found[seed] = (modules, find_servable([(m, "main") for m in modules]).splits)
    return found


def test_rows_of_random_networks(verdicts: dict[int, tuple[list[tvm.IRModule], bool]]) -> None:
    apart = [(seed, modules) for seed, (modules, splits) in verdicts.items() if splits]
    assert _NETWORKS // 4 < len(apart) < _NETWORKS
    for seed, modules in apart:
        random = np.random.default_rng(seed)
        one, four = (compiled(module) for module in modules)
        given, other = (hard_numbers(random, 4, 4, 6) for _ in "ab")
        (expected,) = call_vm(four, [given])
        for kept in range(4):
            arrays = other.copy()
            arrays[kept] = given[kept]
            (computed,) = call_vm(four, [arrays])
            assert computed[kept].tobytes() == expected[kept].tobytes(), seed
            (alone,) = call_vm(one, [given[kept : kept + 1]])
            np.testing.assert_allclose(alone[0], expected[kept], rtol=1e-4, err_msg=str(seed))


def test_networks_that_are_refused_mix_rows(
    verdicts: dict[int, tuple[list[tvm.IRModule], bool]],
) -> None:
    """What is refused needlessly is rare: most of these networks have other results for a row."""
    refused = [(seed, modules) for seed, (modules, splits) in verdicts.items() if not splits]
    mixing = 0
    for seed, modules in refused:
        one, four = (compiled(module) for module in modules)
        given = np.random.default_rng(seed).standard_normal((4, 4, 6)).astype("float32")
        (alone,), (among,) = call_vm(one, [given[:1]]), call_vm(four, [given])
        mixing += not np.allclose(alone[0], among[0], rtol=1e-4)
    assert mixing > 0.7 * len(refused)


class RandomSequence:
    """A network of random operators on positions ``[1, length, 6]`` and a mask of them."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, emit: Emit, x: relax.Var, mask: relax.Var) -> relax.Expr:
        self._random, self._emit, self._length = (
            np.random.default_rng(self._seed), emit, int(x.ty.shape[1]),
        )  # fmt: skip
        self._mask = emit(op.expand_dims(mask, [2]))
        for _ in range(4):
            steps = [self._pointwise, self._pointwise, self._attention, self._combined]
            x = steps[int(self._random.integers(4))](x)
        return x

    def _pointwise(self, x: relax.Var) -> relax.Var:
        table = np.random.default_rng(1).standard_normal((16, 6)).astype("float32")
        calls = [
            lambda: op.multiply(x, self._mask),
            lambda: op.nn.gelu(x),
            lambda: op.matmul(x, constant(6, 6)),
            lambda: op.add(x, relax.const(table[: self._length])),
            lambda: op.nn.softmax(x, -1),
            lambda: op.cumsum(x, 1),
        ]
        return self._chosen(calls)

    def _attention(self, x: relax.Var) -> relax.Var:
        """Attend to positions that a mask shows, or that come before."""
        low = float(self._random.choice([-1e9, -1e5, -10.0, 0.0]))
        absent = self._emit(op.subtract(relax.const(1.0, "float32"), self._mask))
        bias = self._emit(op.multiply(absent, relax.const(low, "float32")))
        bias = self._emit(op.permute_dims(bias, [0, 2, 1]))
        if self._random.random() < 0.4:
            ahead = int(self._random.integers(1, 3))
            later = np.triu(np.ones((1, self._length, self._length), "float32"), ahead)
            bias = relax.const(later * np.float32(low))
        scores = self._emit(op.matmul(x, self._emit(op.permute_dims(x, [0, 2, 1]))))
        weights = self._emit(op.nn.softmax(self._emit(op.add(scores, bias)), -1))
        return self._emit(op.matmul(weights, x))

    def _combined(self, x: relax.Var) -> relax.Var:
        """Add to each position what all of them have together."""
        present = self._emit(op.greater(self._mask, relax.const(0.5, "float32")))
        low = relax.const(-np.inf, "float32")
        calls = [
            lambda: op.sum(self._emit(op.multiply(x, self._mask)), [1], keepdims=True),
            lambda: op.max(self._emit(op.where(present, x, low)), [1], keepdims=True),
            lambda: op.sum(x, [1], keepdims=True),
            lambda: op.mean(x, [1], keepdims=True),
            lambda: op.max(x, [1], keepdims=True),
            lambda: op.strided_slice(x, [1], [0], [1]),
        ]
        together = self._chosen(calls)
        return self._emit(op.add(self._emit(op.tanh(x)), self._emit(op.tanh(together))))

    def _chosen(self, calls: list[Callable[[], relax.Expr]]) -> relax.Var:
        return self._emit(calls[int(self._random.integers(len(calls)))]())


def test_positions_of_random_networks() -> None:
    """Padding by zeros changes nothing, for any length and any mask that shows a position."""
    padded = 0
    for seed in range(_NETWORKS):
        modules = [
            prepare(relax_module(RandomSequence(seed), (1, n, 6), (1, n)), attention_depth=16)
            for n in (3, 5, 9)
        ]
        if not find_servable([(module, "main") for module in modules]).pads:
            continue
        padded += 1
        random = np.random.default_rng(seed)
        small, middle, large = map(compiled, modules)
        for function, length in ((small, 3), (middle, 5)):
            x = random.standard_normal((1, length, 6)).astype("float32") * 3
            mask = (random.random((1, length)) < 0.7).astype("float32")
            mask[0, 0] = 1.0
            full = np.zeros((1, 9, 6), "float32"), np.zeros((1, 9), "float32")
            full[0][:, :length], full[1][:, :length] = x, mask
            (expected,), (computed,) = call_vm(function, [x, mask]), call_vm(large, list(full))
            scale = np.abs(expected).max()
            error = np.abs(computed[:, :length] - expected).max()
            assert error <= 1e-4 * scale, seed
    assert _NETWORKS // 6 < padded < _NETWORKS
