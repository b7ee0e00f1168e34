# SPDX-License-Identifier: Apache-2.0
"""Kernels that multiply bfloat16, compared with the products of rounded factors."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import tvm

from support.conv2d import BIAS, Case, reference
from support.networks import assert_close, poisoned, run_kernel, unpack
from tvm_ios.backend.cpu.core import Core
from tvm_ios.backend.cpu.isa.bfloat16 import Bfloat16, exact, nearest
from tvm_ios.backend.cpu.kernels.conv.conv2d import conv2d_kernel
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.layout import Layout, pack_bf16_dot2
from tvm_ios.backend.cpu.kernels.matmul.packing import pack_matrix
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import (
    pack_bf16_dot2 as pack_matrix_bf16_dot2,
)
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import reduced_precision_matmul_kernel
from tvm_ios.backend.cpu.kernels.storage import with_storage
from tvm_ios.lowering.product import Matmul
from tvm_ios.ops.epilogue import Epilogue, Operand, Step

TILE_MATMUL_CASES = {
    "1x1": Case(kernel=(1, 1), padding=(0, 0, 0, 0)),
    "1x1 of a batch": Case(batch=2, channels=48, kernel=(1, 1), padding=(0, 0, 0, 0)),
    "3x3 of a batch": Case(batch=2, channels=33),
    "3x3 of whole blocks": Case(channels=32, out_channels=(64,), size=(7, 7)),
    "wide": Case(channels=16, out_channels=(48,), size=(5, 70)),
    "odd channels": Case(channels=37, out_channels=(40,)),
    "one channel": Case(channels=1),
    "fifteen channels": Case(channels=15),
    "one pixel": Case(channels=64, size=(1, 1)),
    "strided": Case(channels=19, size=(17, 39), kernel=(7, 7), stride=(2, 2)),
    "dilated": Case(dilation=(2, 3), padding=(2, 3, 2, 3)),
    "1x19": Case(channels=9, size=(3, 23), kernel=(1, 19), padding=(0, 9, 0, 9), dilation=(1, 2)),
    "groups": Case(channels=32, out_channels=(96,), groups=2),
    "two results": Case(out_channels=(10, 24)),
    "many weights": Case(channels=130, out_channels=(200,), size=(5, 6)),
}


def half_format(core: Core) -> Bfloat16:
    return Bfloat16(core.bf16_dot2_lanes)


def rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16).astype("float32")


Run = Callable[..., list[np.ndarray]]
"""``run(kernel, inputs, target)`` returns a kernel's outputs."""


def check_convolution(
    case: Case, target: tvm.target.Target, core: Core, layout: Layout, run: Run = run_kernel
) -> None:
    """Compare a convolution of rounded factors, with a result in float32 and in bfloat16."""
    random = np.random.default_rng(0)
    draw = lambda *shape: random.standard_normal(shape).astype("float32")  # noqa: E731
    result = Layout(core.lanes)
    image = rounded(draw(case.batch, case.channels, *case.size))
    weights = [
        rounded(draw(k, case.channels // case.groups, *case.kernel)) for k in case.out_channels
    ]
    biases = [draw(1, k, 1, 1) for k in case.out_channels]
    inputs = [
        nearest(poisoned(layout, image) if layout == result else layout.pack(image)),
        np.concatenate([pack_bf16_dot2(w, layout.block, core.lanes, case.groups) for w in weights]),
        np.concatenate([result.pack(b) for b in biases], axis=1),
    ]
    conv = Conv2d(case.batch, case.channels, *case.windows(), case.out_channels, case.groups, BIAS)
    kernel = conv2d_kernel(conv, layout, result, core, factors="pairs")
    narrow = with_storage(kernel, {}, dict.fromkeys(range(len(kernel.outputs)), half_format(core)))
    exactly, stored = (run(k, inputs, target) for k in (kernel, narrow))
    for wide, bits, w, b in zip(exactly, stored, weights, biases, strict=True):
        expected = np.maximum(reference(case, image, w) + b, 0).astype("float32")
        assert_close(unpack(wide, expected.shape), expected)
        np.testing.assert_array_equal(exact(bits), rounded(wide))


STEPS = (
    Step("add", (Operand("value", 0), Operand("argument", 0))),
    Step("add", (Operand("value", 1), Operand("argument", 1))),
)


def check_product(
    rows: int,
    depth: int,
    columns: int,
    target: tvm.target.Target,
    core: Core,
    run: Run = run_kernel,
) -> None:
    random = np.random.default_rng(0)
    draw = lambda *shape: random.standard_normal(shape).astype("float32")  # noqa: E731
    a, b = rounded(draw(rows, depth)), rounded(draw(depth, columns))
    bias, residual = draw(columns), rounded(draw(rows, columns))
    product = Matmul(rows, depth, columns, Epilogue(STEPS, ("last", "full")))
    packed = pack_matrix_bf16_dot2(pack_matrix(b, core.lanes))
    kernel = reduced_precision_matmul_kernel(product, core)
    kernel = with_storage(kernel, {3: half_format(core)}, {})
    inputs = [nearest(a[None]), packed, bias, nearest(residual[None])]
    (output,) = run(kernel, inputs, target)
    expected = a.astype("float64") @ b + bias + residual
    assert_close(output[0], expected.astype("float32"))
