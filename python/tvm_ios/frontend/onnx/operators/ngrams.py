# SPDX-License-Identifier: Apache-2.0
"""Counts of the sequences of numbers that a list of them has: n-grams of encoded words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from ...emitter import constant, dtype_of, shape_of
from ..node_emitter import NodeEmitter
from .table import operator

_MODES = ("TF", "IDF", "TFIDF")


@dataclass(frozen=True)
class _Pool:
    """The n-grams of one length.

    Attributes
    ----------
    grams : array
        A row each.
    places : array
        The element of the result that counts each.
    """

    grams: np.ndarray
    places: np.ndarray


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> relax.Expr:
    """Count n-grams whose elements are next to each other, or as many places apart as allowed."""
    if pool_strings:
        raise emit.error("counts n-grams of text, which is not supported; encode the words before.")
    if mode not in _MODES:
        raise emit.error(f"has the mode {mode!r}, which is neither TF, IDF nor TFIDF.")
    shape = shape_of(data)
    if len(shape) > 2 or min(ngram_indexes, default=-1) < 0:
        raise emit.error("takes a list or rows, and needs the places of its n-grams.")
    lengths = range(max(min_gram_length, 1), max_gram_length + 1)
    pools = dict(_pools(emit, ngram_counts, ngram_indexes, pool_int64s))
    size = max(ngram_indexes) + 1
    rows = emit.reshape(data, [shape[0] if len(shape) == 2 else 1, shape[-1] if shape else 1])
    total = emit.filled([shape_of(rows)[0], size], 0, "float32")
    for length in lengths:
        if length in pools:
            grams = pools[length].grams
            if len(np.unique(grams, axis=0)) != len(grams):
                raise emit.error(f"has an n-gram of {length} twice in its pool.")
            found = _found(emit, rows, grams, max_skip_count if length > 1 else 0)
            total = _added(emit, total, found, pools[length].places)
    weighted = _weighted(emit, total, mode, _weights(emit, ngram_indexes, weights))
    return emit.reshape(weighted, [*shape[:-1], size])


def _pools(
    emit: NodeEmitter, begins: Sequence[int], places: Sequence[int], pool: Sequence[int]
) -> Iterator[tuple[int, _Pool]]:
    """Yield the n-grams by their length.

    Raises
    ------
    ModelError
        If the places in the pool are not those of whole n-grams.
    """
    ends, used = [*begins[1:], len(pool)], 0
    for length, (begin, end) in enumerate(zip(begins, ends, strict=True), 1):
        count = (end - begin) // length
        if not 0 <= begin <= end <= len(pool) or count * length != end - begin:
            raise emit.error(f"has no whole n-grams of {length} from {begin} to {end} of its pool.")
        if used + count > len(places):
            raise emit.error(f"has places for {len(places)} n-grams, but more n-grams.")
        grams = np.array(pool[begin:end], "int64").reshape(count, length)
        if count:
            yield length, _Pool(grams, np.array(places[used : used + count], "int64"))
        used += count


def _found(emit: NodeEmitter, rows: relax.Expr, grams: np.ndarray, skips: int) -> relax.Expr | None:
    """Return how often each row has each n-gram, as int32; None if rows are too short."""
    counted, length = None, grams.shape[1]
    for distance in range(1, skips + 2):
        windows = shape_of(rows)[1] - distance * (length - 1)
        if windows <= 0:
            break
        equal = _equal(emit, rows, grams, distance, windows)
        count = emit(relax.op.sum(emit.cast(equal, "int32"), [1]))
        counted = count if counted is None else emit(relax.op.add(counted, count))
    return counted


def _equal(
    emit: NodeEmitter, rows: relax.Expr, grams: np.ndarray, distance: int, windows: int
) -> relax.Expr:
    """Return whether an n-gram begins at a place: rows, places, n-grams."""
    found = None
    for number in range(grams.shape[1]):
        part = emit.slice(rows, 1, number * distance, number * distance + windows)
        wide = emit.reshape(emit.cast(part, "int64"), [shape_of(rows)[0], windows, 1])
        same = emit(relax.op.equal(wide, constant(grams[:, number].reshape(1, 1, -1))))
        found = same if found is None else emit(relax.op.logical_and(found, same))
    assert found is not None, "an n-gram has elements"
    return found


def _added(
    emit: NodeEmitter, total: relax.Expr, found: relax.Expr | None, places: np.ndarray
) -> relax.Expr:
    """Add counts to the elements that they belong to."""
    if found is None:
        return total
    shape = (shape_of(total)[0], places.size)
    emit.allocate(shape, "int64")
    indices = constant(np.broadcast_to(places, shape))
    counts = emit.cast(found, dtype_of(total))
    return emit(relax.op.scatter_elements(total, indices, counts, 1, "add"))


def _weights(
    emit: NodeEmitter, places: Sequence[int], weights: Sequence[float]
) -> np.ndarray | None:
    """Return the weight of each element of the result; None without any.

    ONNX says that weights are in the order of n-grams, implementations take the order of elements.

    Raises
    ------
    ModelError
        If these differ.
    """
    if not len(weights):
        return None
    size = max(places) + 1
    given = np.array(weights, "float32")
    same = given.size == size == len(places)
    if not same or any(given[place] != given[i] for i, place in enumerate(places)):
        raise emit.error("has weights that are not in the order of both n-grams and results.")
    return given


def _weighted(
    emit: NodeEmitter, total: relax.Expr, mode: str, weights: np.ndarray | None
) -> relax.Expr:
    if mode == "IDF":
        total = emit.cast(emit(relax.op.greater(total, emit.scalar(0, total))), "float32")
    if mode == "TF" or weights is None:
        return total
    return emit(relax.op.multiply(total, constant(weights)))
