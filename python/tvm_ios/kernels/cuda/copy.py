# SPDX-License-Identifier: Apache-2.0
"""Tensors copied, their axes in another order."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import te

from ..kernel import TensorSpec
from .kernel import CudaKernel
from .schedule import schedule


def copy_kernel(source: TensorSpec, axes: Sequence[int], target: tvm.target.Target) -> CudaKernel:
    """The kernel that writes ``numpy.transpose(source, axes)``.

    Parameters
    ----------
    source : TensorSpec
    axes : sequence of int
    target : tvm.target.Target
    """
    shape = tuple(source.shape[axis] for axis in axes)
    placeholder = te.placeholder(source.shape, source.dtype)

    def element(*indices):
        return placeholder(*(indices[axes.index(axis)] for axis in range(len(axes))))

    axes = list(axes)
    function = te.create_prim_func([placeholder, te.compute(shape, element)])
    first = schedule(function, target, "fp32")[0]
    return CudaKernel(
        name="copy",
        key=("copy", source, tuple(axes)),
        inputs=(source,),
        outputs=(TensorSpec(shape, source.dtype),),
        function=first.function,
        variant=first.name,
    )
