# SPDX-License-Identifier: Apache-2.0
"""Interim."""

import tvm


def build_kernels(kernels, target):
    return tvm.compile(
        tvm.IRModule({n: k.function.with_attr("global_symbol", n) for n, k in kernels.items()}),
        target=target,
    )
