# SPDX-License-Identifier: Apache-2.0
"""Compilation of kernels in batches, on all cores of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import tvm
from tvm.target import codegen

from tvm_ios_env.machine import default_threads

from ..support.messages import logged

_Batch = TypeVar("_Batch")
_Compiled = TypeVar("_Compiled")


def compiled(
    compile_batch: Callable[[_Batch], _Compiled],
    batches: Iterable[_Batch],
    target: tvm.target.Target,
) -> Iterator[_Compiled]:
    """Yield the result of each batch in order of completion; every core compiles.

    After an error or an interrupt no further batch is started.

    Parameters
    ----------
    compile_batch : callable
        The function that compiles a batch. It is called in other threads.
    batches : iterable
        The batches.
    target : tvm.target.Target
        The target of LLVM's code.
    """

    def compile_quietly(batch: _Batch) -> _Compiled:
        with logged():
            return compile_batch(batch)

    with ThreadPoolExecutor(_threads(target)) as pool:
        try:
            for done in as_completed([pool.submit(compile_quietly, batch) for batch in batches]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _threads(target: tvm.target.Target) -> int:
    """Return how many threads may use LLVM at once."""
    if target.attrs.get("cl-opt"):
        return 1  # TVM sets these options for the process and resets them after each module
    codegen.llvm_get_targets()  # initialises LLVM, which is not thread-safe
    return default_threads()
