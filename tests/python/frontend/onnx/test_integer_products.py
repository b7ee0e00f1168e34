# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit integers whose sums single precision does not hold, in exact parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.contributed import Node, compiled
from support.networks import NATIVE
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.frontend.onnx.operators.integers import exact_ends

EXACT = 1 << 24


@pytest.mark.parametrize("magnitude", [1.0, 60.0, 127.0, 255.0])
@pytest.mark.parametrize("depth", [1, 63, 500, 3072, 4097])
def test_parts_are_exact(depth: int, magnitude: float) -> None:
    """All but the last are multiples of what kernels of bytes multiply at a time."""
    ends = exact_ends(np.full((depth, 2), magnitude))
    assert ends[-1] == depth
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        assert begin < end
        assert (end - begin) * 255 * magnitude <= EXACT
    assert all(end % 64 == 0 for end in ends[:-1])


def test_a_wide_product_is_one_of_bytes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    a = random.integers(0, 256, (5, 3072), "uint8")
    b = random.integers(-128, 128, (3072, 33), "int8")
    inputs = [a, b, np.array(131, "uint8")]
    (found,) = compiled(tmp_path, Node("MatMulInteger", inputs, [1, 2], domain=""))
    np.testing.assert_array_equal(found, (a.astype("int32") - 131) @ b.astype("int32"))
    lowered = Scheduler.prepare(load_model(str(tmp_path / "m.onnx")), NATIVE).stage_builder.lowered
    variants = {
        made.kernel.variant
        for made, op in zip(lowered.implementations, lowered.graph.operators, strict=True)
        if made is not None and op.kind == "matmul"
    }
    assert variants == ({"int8"} if lowered.config.int8 else {None})
