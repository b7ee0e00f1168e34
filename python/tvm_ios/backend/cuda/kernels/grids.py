# SPDX-License-Identifier: Apache-2.0
"""The grids of a scheduled TIR function's launches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx


@dataclass(frozen=True)
class Grid:
    """The grid of one launch.

    Attributes
    ----------
    blocks, threads : int
        Thread blocks, and threads per block.
    """

    blocks: int
    threads: int


def grids(function: tirx.PrimFunc) -> tuple[Grid, ...]:
    """Return the grids of a function's launches, one per outermost loop nest, in order."""
    body = function.body
    if hasattr(body, "block"):
        body = body.block.body
    nests = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    bound = [extents for extents in map(_bound_extents, nests) if extents]
    return tuple(Grid(_count(e, "blockIdx"), _count(e, "threadIdx")) for e in bound)


def _count(extents: dict[str, int], index: str) -> int:
    return math.prod(extent for tag, extent in extents.items() if tag.startswith(index))


def _bound_extents(nest: tirx.Stmt) -> dict[str, int]:
    """Return the extents of block and thread indices, by their tags."""
    extents: dict[str, int] = {}

    def loop(statement: tirx.For) -> None:
        if statement.kind == tirx.ForKind.THREAD_BINDING:
            extents[str(statement.thread_binding.thread_tag)] = int(statement.extent)

    def attribute(statement: tirx.AttrStmt) -> None:
        if statement.attr_key == "thread_extent":
            extents[str(statement.node.thread_tag)] = int(statement.value)

    tvm_ffi.structural_walk(nest, [(tirx.For, loop), (tirx.AttrStmt, attribute)])
    return extents
