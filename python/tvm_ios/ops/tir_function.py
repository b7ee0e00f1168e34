# SPDX-License-Identifier: Apache-2.0
"""Parts that every TIR function of our own has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm.tirx.script import builder as T


@contextmanager
def tile_scope() -> Iterator[None]:
    """Open a block that owns the registers allocated in it."""
    with T.sblock("tile"):
        T.reads()
        T.writes()
        yield


_ON_STACK = {"disable_lower_builtin": True}


def on_stack(shape: Sequence[int], dtype: str = "float32") -> Any:
    """Allocate a buffer that is private to a worker.

    It stays on the stack. Without its annotation, TVM's runtime allocates the buffer, and LLVM
    keeps it in registers only if it can prove that no store in a loop overwrites it. StorageRewrite
    drops the annotation, so kernels are built without that pass.
    """
    return T.alloc_buffer(tuple(shape), dtype, scope="local", layout=None, annotations=_ON_STACK)
