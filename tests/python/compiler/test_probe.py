# SPDX-License-Identifier: Apache-2.0
"""What a run of a library refuses, whatever its network was found to allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.networks import NATIVE, relax_module
from tvm_ios.compiler import signatures, steps
from tvm_ios.compiler.artifact import Serving
from tvm_ios.compiler.dependence.servable import Servable
from tvm_ios.compiler.probe import probe
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.transport.locations import LocalRunner

op = relax.op


def probed(
    folder: Path, body: Callable[..., relax.Expr], inputs: Sequence[relax.Type], servable: Servable
) -> Serving:
    """Return what is served of a network with inputs of several types if all may be."""
    networks = []
    for ty in inputs:
        scheduler = Scheduler.prepare(relax_module(body, ty), NATIVE)
        networks.append((scheduler, steps.choose(scheduler, None, search=False)))
    signatures.write(networks, folder / "m.so", LocalRunner())
    return probe(folder / "m.so", networks[0][0], servable)


def rows(*batches: int) -> list[relax.Type]:
    return [relax.TensorType((batch, 5), "float32") for batch in batches]


ALL = Servable(True, frozenset())


def test_rows_that_are_apart_are_split(tmp_path: Path) -> None:
    assert probed(tmp_path, lambda emit, x: emit(op.nn.relu(x)), rows(2, 4), ALL).splits
    none = Servable(False, frozenset())
    assert not probed(tmp_path, lambda emit, x: emit(op.nn.relu(x)), rows(2, 4), none).splits


@pytest.mark.parametrize("share", [1.0, 1e-6])
def test_rows_that_meet_are_not_split(tmp_path: Path, share: float) -> None:
    def body(emit: Any, x: relax.Var) -> relax.Expr:
        mean = emit(op.mean(x, [0], keepdims=True))
        return emit(op.subtract(x, emit(op.multiply(mean, relax.const(share, "float32")))))

    assert not probed(tmp_path, body, rows(2, 4), ALL).splits


def test_rows_that_are_counted_are_not_split(tmp_path: Path) -> None:
    def body(emit: Any, x: relax.Var) -> relax.Expr:
        numbers = np.arange(int(x.ty.shape[0]), dtype="float32")[:, None]
        return emit(op.add(x, relax.const(numbers)))

    assert not probed(tmp_path, body, rows(2, 4), ALL).splits


def test_padding_that_few_tokens_would_hide(tmp_path: Path) -> None:
    """The mean of all tokens depends on their number, but not that of the first two tokens."""
    table = np.ones((50, 16), "float32")
    table[:2] = 0.0

    def body(emit: Any, ids: relax.Var) -> relax.Expr:
        return emit(op.mean(emit(op.take(relax.const(table), ids, 0)), [1]))

    tokens = [relax.TensorType((1, length), "int64") for length in (8, 16)]
    assert not probed(tmp_path, body, tokens, Servable(False, frozenset({0}))).pads


def test_padding_that_is_no_index(tmp_path: Path) -> None:
    def body(emit: Any, ids: relax.Var) -> relax.Expr:
        last = emit(op.subtract(ids, relax.const(60, "int64")))
        return emit(op.take(relax.const(np.ones((50, 16), "float32")), last, 0))

    tokens = [relax.TensorType((1, length), "int64") for length in (8, 16)]
    assert not probed(tmp_path, body, tokens, Servable(False, frozenset({0}))).pads
