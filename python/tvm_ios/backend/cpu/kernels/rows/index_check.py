# SPDX-License-Identifier: Apache-2.0
"""Indices that are checked while a network runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.index_check import Bounds, long
from .....ops.tensor import TensorSpec
from .....ops.tir_function import on_stack, tile_scope
from .....sizes.size import AnyShape
from ..kernel import Finding, Kernel, Phase


def index_check_kernel(shape: AnyShape, dtype: str, bounds: Bounds, what: str) -> Kernel:
    """Return the kernel that makes indices valid, and counts them from the beginning.

    Its finding is the last index that was out of bounds. That index becomes a valid one, too, so
    that what comes after it accesses no memory of others.

    Parameters
    ----------
    shape : tuple of sizes
        Shape of the indices.
    dtype : str
        Their type, an integer.
    bounds : Bounds
        The valid indices.
    what : str
        What the indices are, for the error.
    """
    indices = TensorSpec(shape, dtype)

    def emit(buffers: Sequence[Any], begin: Any, extent: Any) -> None:
        with T.serial(begin, begin + extent), tile_scope():
            _check(bounds, *buffers)

    return Kernel(
        name="check_indices",
        key=("index check", shape, dtype, bounds),
        inputs=(indices,),
        outputs=(indices,),
        scratch=(Finding.SPEC,),
        phases=(Phase(1, emit),),
        finding=Finding(what),
        sizes=bounds.extents,
    )


def _check(bounds: Bounds, indices: Any, checked: Any, finding: Any) -> None:
    numbers = on_stack(Finding.SPEC.shape, "int64")
    for n in range(Finding.SPEC.num_elements):
        T.buffer_store(numbers, T.int64(0), [n])
    for extent, at in bounds.loops(indices.shape):
        index = T.Cast("int64", indices[at])
        with T.If(bounds.exclude(index, extent)), T.Then():
            for n, number in enumerate((1, index, bounds.first(extent), extent - 1)):
                T.buffer_store(numbers, T.Cast("int64", long(number)), [n])
        valid = T.min(bounds.from_begin(index, extent), long(extent - 1))
        T.buffer_store(checked, T.Cast(str(checked.dtype), T.max(valid, T.int64(0))), at)
    for n in range(Finding.SPEC.num_elements):
        T.buffer_store(finding, numbers[n], [n])
