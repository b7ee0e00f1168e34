# SPDX-License-Identifier: Apache-2.0
"""What is no number stays none, and infinities stay infinite, as in NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import TARGETS, compile_plain, conv, few_stages, relax_module, run_vm
from tvm_ios.transform import InterOperatorSchedule

op = relax.op
SHAPE = (2, 19, 9, 11)
ODD = (np.nan, np.inf, -np.inf)


def image() -> np.ndarray:
    """Numbers among which there are some that are none, and a row of minus infinity."""
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    for i, value in enumerate(ODD):
        x[0, 3 + i, 4, 5 + i] = value
        x[1, 18, 2 * i, 10] = value
    x[1, 7] = -np.inf
    return x


def pooled(x: np.ndarray) -> np.ndarray:
    """The largest of 3x3 numbers; what is outside of the image is no part of it."""
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    height, width = x.shape[2:]
    windows = [wide[:, :, r : r + height, s : s + width] for r, s in product(range(3), range(3))]
    return np.max(windows, axis=0)


def largest(windows: list[np.ndarray]) -> np.ndarray:
    """By TVM and ONNX Runtime, whose poolings start from the least finite number."""
    return np.maximum(np.max(windows, axis=0), np.finfo("float32").min)


def constant(value: float) -> relax.Expr:
    return relax.const(np.float32(value), "float32")


CASES: dict[str, tuple[Callable[..., relax.Expr], Callable[[np.ndarray], np.ndarray]]] = {
    "relu": (lambda e, x: e(op.nn.relu(x)), lambda x: np.maximum(x, 0)),
    "clip": (lambda e, x: e(op.clip(x, -0.5, 6.0)), lambda x: np.clip(x, -0.5, 6)),
    "leaky relu": (
        lambda e, x: e(op.nn.leakyrelu(x, 0.1)),
        lambda x: np.maximum(x, 0) + 0.1 * np.minimum(x, 0),
    ),
    "maximum of a constant": (
        lambda e, x: e(op.maximum(x, constant(0.5))),
        lambda x: np.maximum(x, 0.5),
    ),
    "minimum, constant in front": (
        lambda e, x: e(op.minimum(constant(0.5), x)),
        lambda x: np.minimum(0.5, x),
    ),
    "maximum of two": (
        lambda e, x: e(op.maximum(e(op.tanh(x)), x)),
        lambda x: np.maximum(np.tanh(x), x),
    ),
    "minimum of two": (
        lambda e, x: e(op.minimum(x, e(op.exp(x)))),
        lambda x: np.minimum(x, np.exp(x)),
    ),
    "max pooling": (lambda e, x: e(op.nn.max_pool2d(x, (3, 3), padding=(1, 1))), pooled),
    "largest of rows": (lambda e, x: e(op.max(x, axis=[3])), lambda x: x.max(axis=3)),
    "largest of channels": (lambda e, x: e(op.max(x, axis=[1])), lambda x: x.max(axis=1)),
    "smallest of planes": (lambda e, x: e(op.min(x, axis=[2, 3])), lambda x: x.min(axis=(2, 3))),
    "max pooling along one axis": (
        lambda e, x: e(op.nn.max_pool1d(e(op.reshape(x, (2, 19 * 9, 11))), 3)),
        lambda x: np.max([x.reshape(2, 171, 11)[:, :, i : i + 9] for i in range(3)], axis=0),
    ),
    # What TVM lowers.
    "dilated max pooling": (
        lambda e, x: e(op.nn.max_pool2d(x, (2, 2), dilation=(2, 2))),
        lambda x: largest([x[:, :, r : r + 7, s : s + 9] for r in (0, 2) for s in (0, 2)]),
    ),
    "largest of images": (lambda e, x: e(op.max(x, axis=[0, 2])), lambda x: x.max(axis=(0, 2))),
    "relu of wide numbers": (
        lambda e, x: e(op.astype(e(op.nn.relu(e(op.astype(x, "float64")))), "float32")),
        lambda x: np.maximum(x, 0),
    ),
    "clip of narrow numbers": (
        lambda e, x: e(op.astype(e(op.clip(e(op.astype(x, "float16")), -2, 2)), "float32")),
        lambda x: np.clip(x.astype("float16"), -2, 2).astype("float32"),
    ),
    "less itself": (lambda e, x: e(op.subtract(x, x)), lambda x: x - x),
    "a value less itself": (
        lambda e, x: e(op.subtract(e(op.exp(x)), e(op.exp(x)))),
        lambda x: np.exp(x) - np.exp(x),
    ),
    "a sum less a part of it": (
        lambda e, x: e(op.subtract(e(op.add(x, y := e(op.exp(x)))), y)),
        lambda x: (x + np.exp(x)) - np.exp(x),
    ),
    "a part less the sum": (
        lambda e, x: e(op.subtract(y := e(op.exp(x)), e(op.add(x, y)))),
        lambda x: np.exp(x) - (x + np.exp(x)),
    ),
    "gelu": (lambda e, x: e(op.nn.gelu(x)), lambda x: np.where(np.isnan(x), x, np.nan)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_no_number(case: str, target: tvm.target.Target) -> None:
    body, reference = CASES[case]
    mod, x = relax_module(body, SHAPE), image()
    scheduled = InterOperatorSchedule(target, cost_model=few_stages)(mod)
    (actual,) = run_vm(compile_plain(scheduled, target), [x])
    with np.errstate(invalid="ignore", over="ignore"):
        expected = reference(x)
    if case == "gelu":  # of numbers it is tested elsewhere
        actual, expected = actual[np.isnan(x)], expected[np.isnan(x)]
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_a_network_of_nothing_has_no_scores(target: tvm.target.Target) -> None:
    """One pixel that is no number leaves no score of its image that looks like one."""

    def body(emit, x):
        for seed in range(3):
            x = emit(op.nn.relu(emit(conv(x, 16, seed=seed))))
        x = emit(op.nn.max_pool2d(x, (2, 2), 2))
        x = emit(op.squeeze(emit(op.nn.adaptive_avg_pool2d(x, 1)), [2, 3]))
        return emit(op.nn.softmax(x))

    x = np.random.default_rng(0).standard_normal((2, 3, 18, 18)).astype("float32")
    x[0, 1, 8, 8] = np.nan
    scheduled = InterOperatorSchedule(target, cost_model=few_stages)(relax_module(body, x.shape))
    (scores,) = run_vm(compile_plain(scheduled, target), [x])
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()
