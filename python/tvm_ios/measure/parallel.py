# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled on all cores of this machine, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import tvm
from tvm.target import codegen

from tvm_ios_env.machine import default_threads

_Batch = TypeVar("_Batch")
_Compiled = TypeVar("_Compiled")


def compiled(
    compile_batch: Callable[[_Batch], _Compiled],
    batches: Iterable[_Batch],
    target: tvm.target.Target,
) -> Iterator[_Compiled]:
    """What becomes of each batch, as they are ready; every core compiles.

    After an error, or an interrupt, no other batch is begun.

    Parameters
    ----------
    compile_batch : callable
        Is called in other threads.
    batches : iterable
    target : tvm.target.Target
        Of the code that LLVM makes.
    """
    with ThreadPoolExecutor(_threads(target)) as pool:
        try:
            for done in as_completed([pool.submit(compile_batch, batch) for batch in batches]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _threads(target: tvm.target.Target) -> int:
    """How many threads may use LLVM at once."""
    if target.attrs.get("cl-opt"):
        return 1  # such options are set for the process and reset after every module
    codegen.llvm_get_targets()  # LLVM is started, which must not happen twice at once
    return default_threads()
