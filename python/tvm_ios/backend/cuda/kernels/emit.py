# SPDX-License-Identifier: Apache-2.0
"""Helpers that the emitters of CUDA kernels share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

Expr = Any

LAUNCH = {"pragma_unroll_explicit": False}
"""Makes CUDA's compiler unroll; it takes minutes to parse the code that TVM has unrolled."""


def kernel(
    parameters: Sequence[Any],
    blocks: int,
    threads: int,
    body: Callable[[Sequence[Any], Expr, Expr], None],
) -> tirx.PrimFunc:
    """Build a function of one launch.

    Parameters
    ----------
    parameters : sequence of tvm.tirx.Var
        Tensors whose names, shapes and types become those of the function's parameters.
    blocks, threads : int
        Blocks of the launch, and threads of a block.
    body : callable
        ``body(buffers, block, thread)`` emits the code of one thread.

    Returns
    -------
    tvm.tirx.PrimFunc
        A scheduled function.
    """
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True})
        shapes = [[int(extent) for extent in p.shape] for p in parameters]
        buffers = [
            T.arg(p.name, T.buffer(shape, str(p.dtype), layout=None))
            for p, shape in zip(parameters, shapes, strict=True)
        ]
        with (
            T.sblock("root"),
            T.thread_binding(blocks, thread="blockIdx.x") as block,
            T.thread_binding(threads, thread="threadIdx.x", annotations=LAUNCH) as thread,
            T.sblock("launch"),
        ):
            T.reads()
            T.writes()
            body(buffers, block, thread)
    return builder.get()


def every(conditions: Sequence[Expr]) -> Expr | None:
    """Return the conjunction of the conditions, None if there are none."""
    return reduce(tirx.all, conditions) if conditions else None


@contextmanager
def when(condition: Expr | None) -> Iterator[None]:
    """Emit the statements inside under ``condition``; None is always true."""
    if condition is None:
        yield
        return
    with T.If(condition), T.Then():
        yield


def registers(count: int, dtype: str = "float32") -> Any:
    """Allocate ``count`` elements private to a thread."""
    return T.alloc_buffer((count,), dtype, scope="local", layout=None)


def shared(count: int, dtype: str, dynamic: bool = False) -> Any:
    """Allocate elements that a block shares.

    Parameters
    ----------
    count : int
        Number of elements.
    dtype : str
        Their type.
    dynamic : bool
        Whether to use dynamic shared memory, for large buffers.

    Returns
    -------
    Buffer
        The elements.
    """
    scope = "shared.dyn" if dynamic else "shared"
    return T.alloc_buffer((count,), dtype, scope=scope, layout=None)


def barrier() -> None:
    """Emit a barrier for all threads of the block."""
    T.evaluate(tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared"))
