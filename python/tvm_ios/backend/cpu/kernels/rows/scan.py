# SPDX-License-Identifier: Apache-2.0
"""Passes over a row in memory: vectors along it, the remainder at its end, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.size import AnySize
from ...isa.emit import Accumulators, bind, lanes_of, loop, select, splat, unroll, zeros
from ...isa.functions import keep, register

Expr = Any
Combine = Callable[[Expr, Expr], Expr]
Load = Callable[[Expr, int], Expr]

LOWEST = -3.4028234663852886e38
_WAYS = 4  # independent reductions hide the latency of an addition
_CHAINS = 8  # of vectors that one core adds as it loads them


def chunk(index: Expr, length: int, lanes: int, body: Callable[[Expr, int], None]) -> None:
    """Emit the vector of number ``index`` among those with which :func:`~.along` covers a row.

    Parameters
    ----------
    index : Expr
        Number of the vector.
    length : int
        Elements of the row.
    lanes : int
        Elements of a vector.
    body : callable
        ``body(first, width)`` emits the code of one vector.
    """
    full, rest = divmod(length, lanes)
    select(
        index,
        [
            (full, lambda i: body(i * lanes, lanes)),
            (1 if rest else 0, lambda _: body(full * lanes, rest)),
        ],
    )


def reduce_row(length: int, lanes: int, load: Load, combine: Combine, initial: float) -> Expr:
    """Combine all of ``load(first, width)`` along a row into one number.

    Parameters
    ----------
    length : int
        Elements of the row.
    lanes : int
        Elements of a vector.
    load : callable
        Returns ``width`` elements from ``first``.
    combine : callable
        An associative operation on two vectors.
    initial : float
        The neutral element of ``combine``.

    Returns
    -------
    Expr
        A scalar in a register.
    """
    full, rest = divmod(length, lanes)
    ways = min(_WAYS, full)
    results = []
    if full:
        registers = Accumulators(ways, lanes, splat(T.float32(initial), lanes))

        def add(way: Expr, vector: Expr) -> None:
            registers[way] = combine(registers[way], load(vector * lanes, lanes))

        rounds, over = divmod(full, ways)
        loop(rounds, lambda i: unroll(0, ways, lambda way: add(way, i * ways + way)))
        unroll(0, over, lambda way: add(way, rounds * ways + way))
        total = registers[0]
        for way in range(1, ways):
            total = combine(total, registers[way])
        results.append(fold(total, lanes, combine))
    if rest:
        results.append(fold(load(full * lanes, rest), rest, combine))
    return keep(results[0] if len(results) == 1 else combine(*results))


def add_vectors(count: AnySize, lanes: int, load: Callable[[Expr], Expr]) -> Expr:
    """Add the vectors ``load(0)`` to ``load(count - 1)``, on several sums at a time."""
    if not isinstance(count, int):
        return _add_open(count, lanes, load)
    ways = min(_CHAINS, count)
    sums = Accumulators(ways, lanes, zeros(lanes))

    def add(way: Expr, number: Expr) -> None:
        sums[way] = sums[way] + load(number)

    rounds, rest = divmod(count, ways)
    loop(rounds, lambda i: unroll(0, ways, lambda way: add(way, i * ways + way)))
    unroll(0, rest, lambda way: add(way, rounds * ways + way))
    total = sums[0]
    for way in range(1, ways):
        total = total + sums[way]
    return total


def _add_open(count: Expr, lanes: int, load: Callable[[Expr], Expr]) -> Expr:
    """Add as many vectors as are known only at run time."""
    sums = Accumulators(_CHAINS, lanes, zeros(lanes))

    def add(way: Expr, number: Expr) -> None:
        sums[way] = sums[way] + load(number)

    rounds = bind(count // _CHAINS)
    with T.serial(rounds) as i:
        unroll(0, _CHAINS, lambda way: add(way, i * _CHAINS + way))
    with T.serial(bind(count % _CHAINS)) as i:
        add(0, rounds * _CHAINS + i)
    total = sums[0]
    for way in range(1, _CHAINS):
        total = total + sums[way]
    return total


def fold(vector: Expr, lanes: int, combine: Combine) -> Expr:
    """Combine the lanes of ``vector`` into one number, by halves.

    Parameters
    ----------
    vector : Expr
        The vector.
    lanes : int
        Its number of lanes.
    combine : callable
        An associative operation on two vectors.

    Returns
    -------
    Expr
        A scalar.
    """
    buffer = register(lanes)
    T.buffer_store(buffer, vector, [lanes_of(0, lanes)])
    while lanes > 1:
        half = lanes // 2
        low, high = (buffer[lanes_of(begin, half)] for begin in (0, lanes - half))
        T.buffer_store(buffer, combine(low, high), [lanes_of(0, half)])
        lanes -= half
    return buffer[0]
