# SPDX-License-Identifier: Apache-2.0
"""Kernels that copy a tensor and permute its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import te

from ....ops.tensor import TensorSpec
from .kernel import CudaKernel
from .schedule import schedule, scheduled_kernel


def copy_kernel(source: TensorSpec, axes: Sequence[int], target: tvm.target.Target) -> CudaKernel:
    """Return the kernel that writes ``numpy.transpose(source, axes)``.

    Parameters
    ----------
    source : TensorSpec
        The tensor to read.
    axes : sequence of int
        The source axis of each axis of the result.
    target : tvm.target.Target
        The target of the kernel.

    Returns
    -------
    CudaKernel
        A kernel with one input and one output.
    """
    shape = tuple(source.shape[axis] for axis in axes)
    placeholder = te.placeholder(source.shape, source.dtype)

    def element(*indices: Any) -> Any:
        return placeholder(*(indices[axes.index(axis)] for axis in range(len(axes))))

    axes = list(axes)
    function = te.create_prim_func([placeholder, te.compute(shape, element)])
    first = schedule(function, target, "fp32")[0]
    return scheduled_kernel("copy", ("copy", source, tuple(axes)), first, 1)
