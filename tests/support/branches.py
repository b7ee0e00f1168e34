# SPDX-License-Identifier: Apache-2.0
"""A small network with branches, whose operators have known names."""

from __future__ import annotations

import tvm
from tvm import relax

from support.networks import conv, relax_module

op = relax.op


def network(size: int = 8, width: int = 24) -> tvm.IRModule:
    """``max_pool2d_0``; ``conv2d_1``, ``conv2d_2`` and ``avg_pool2d_3``; ``concat_4``."""

    def body(emit, x):
        x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        branches = [emit(conv(x, width, 1)), emit(conv(x, 8, 3, seed=1))]
        branches.append(emit(op.nn.avg_pool2d(x, (3, 3), padding=1)))
        return emit(op.concat(branches, axis=1))

    return relax_module(body, (1, 20, size, size))
