# SPDX-License-Identifier: Apache-2.0
"""A network whose outputs are inputs, constants and values, also twice."""

from __future__ import annotations

import numpy as np
from tvm import relax

from support.networks import constant

op = relax.op

SHAPE = (4, 6)


def network(emit, x):
    """Inputs, constants and values as outputs, also twice, and looked at in another shape."""
    value, table = emit(op.nn.relu(x)), constant(*SHAPE)
    joined = emit(op.concat([value, emit(op.exp(x))], axis=0))
    shown = [emit(op.reshape(tensor, (6, 4))) for tensor in (x, value, table)]
    return relax.Tuple([x, x, value, value, table, joined, *shown])


def expected(x: np.ndarray) -> list[np.ndarray]:
    value, table = np.maximum(x, 0), constant(*SHAPE).value.numpy()
    joined = np.concatenate([value, np.exp(x)])
    return [x, x, value, value, table, joined, *(t.reshape(6, 4) for t in (x, value, table))]


def assert_equal(actual, wanted) -> None:
    assert len(actual) == len(wanted)
    for one, other in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
