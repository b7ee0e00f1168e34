# SPDX-License-Identifier: Apache-2.0
"""Conversions between the search's types in Python and what C++ takes and returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tvm_ffi

from ..graph.dag import Candidate, Dag, int_vector
from ..schedule.partitioning import STRATEGIES
from ..schedule.pruning import PruningLimits
from ..support.errors import OptionError


def merge_classes(dag: Dag, merge_class: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """Return one class for each operator; by default a class that is never merged."""
    classes = np.full(dag.num_ops, -1) if merge_class is None else np.asarray(merge_class)
    if len(classes) != dag.num_ops:
        raise OptionError(f"merge_class has {len(classes)} entries for {dag.num_ops} operators")
    return int_vector(classes, OptionError, "merge_class")


def pruning_limits(dag: Dag, pruning: PruningLimits) -> tuple[int, int]:
    """Return r and s; where there is no limit, one that no stage exceeds."""
    r, s = pruning.max_group_size, pruning.max_num_groups
    return dag.num_ops if r is None else int(r), dag.num_ops if s is None else int(s)


def candidates(masks: tvm_ffi.Tensor, strategies: tvm_ffi.Tensor, num_ops: int) -> list[Candidate]:
    """Return the candidates of a batch: operators uint64 [n, words] and strategies int32 [n]."""
    names = [STRATEGIES[number] for number in np.from_dlpack(strategies).tolist()]
    return list(map(Candidate, operator_sets(np.from_dlpack(masks), num_ops), names))


def operator_sets(
    masks: np.ndarray, num_ops: int, rows: int = 1 << 16
) -> Iterator[tuple[int, ...]]:
    """Yield the operators of each row of uint64 [n, words].

    Only ``rows`` rows are unpacked at a time, to bound the memory.
    """
    for begin in range(0, len(masks), rows):
        chunk = np.ascontiguousarray(masks[begin : begin + rows], dtype="<u8")
        bits = np.unpackbits(chunk.view(np.uint8), axis=1, count=num_ops, bitorder="little")
        row, op = np.nonzero(bits)
        ends = np.cumsum(np.bincount(row, minlength=len(chunk))).tolist()
        ops = op.tolist()
        start = 0
        for end in ends:
            yield tuple(ops[start:end])
            start = end
