# SPDX-License-Identifier: Apache-2.0
"""Directed acyclic graphs of operators and their stages, implemented in C++."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tvm_ffi

from ..support import _ffi_api
from ..support.errors import GraphError


class Candidate(NamedTuple):
    """A stage as the search sees it: it asks for its latency, and may choose it."""

    ops: tuple[int, ...]
    """The operators, by increasing index. Their :func:`components` are the stage's groups, which
    run side by side."""
    strategy: str
    """``"concurrent"``, or ``"merge"`` if one larger operator replaces the operators."""


@tvm_ffi.register_object("tvm_ios.Dag")
class Dag(tvm_ffi.Object):
    """A directed acyclic graph of operators.

    Parameters
    ----------
    num_ops
        The number of operators, which are ``0 .. num_ops - 1``.
    edges
        Pairs (producer, consumer), or an integer array of shape [m, 2]. Repeated edges count once.

    Raises
    ------
    GraphError
        If there are no operators, or if an edge is out of range, is a self-loop, or closes a cycle.
    """

    num_ops: int

    def __init__(self, num_ops: int, edges: Iterable[tuple[int, int]] | np.ndarray = ()) -> None:
        self.__init_handle_by_constructor__(_ffi_api.MakeDag, int(num_ops), _edge_array(edges))

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The distinct edges, sorted."""
        return [(u, v) for u, v in np.from_dlpack(_ffi_api.DagEdges(self)).tolist()]

    def __reduce__(self) -> tuple[type[Dag], tuple[int, list[tuple[int, int]]]]:
        """Copy and pickle the graph as its constructor's arguments."""
        return Dag, (self.num_ops, self.edges)

    def __repr__(self) -> str:
        """Show the size only; the edges could fill pages."""
        return f"Dag(num_ops={self.num_ops}, num_edges={len(self.edges)})"


def components(dag: Dag, ops: Iterable[int]) -> list[list[int]]:
    """Return the weakly connected components of a set of operators: the groups of a stage.

    Returns
    -------
    list[list[int]]
        The components, sorted by their first operators, each in topological order.
    """
    array = int_vector(list(ops), GraphError, "ops")
    return [list(group) for group in _ffi_api.Components(dag, array)]


def _edge_array(edges: Iterable[tuple[int, int]] | np.ndarray) -> np.ndarray:
    array = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
    if array.size == 0:
        array = np.zeros((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise GraphError("edges must be pairs of integers (producer, consumer)")
    return np.array(array, dtype=np.int64, order="C")


def int_vector(
    values: Sequence[int] | np.ndarray, error: type[ValueError], name: str
) -> np.ndarray:
    """Convert a sequence of integers to an int64 vector.

    Parameters
    ----------
    values : sequence of int
        The integers.
    error : exception type
        The error to raise if they are not integers.
    name : str
        The name of ``values`` in the message.
    """
    array = np.asarray(values)
    if array.size == 0:
        array = np.zeros(0, np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise error(f"{name} must be a sequence of integers")
    return np.array(array, dtype=np.int64)
