# SPDX-License-Identifier: Apache-2.0
"""Passes over a row in memory: vectors along it, the remainder at its end, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.tirx.script import builder as T

from .....sizes.size import AnySize, Size
from ...isa.emit import Accumulators, bind, lanes_of, loop, select, splat, unroll, zeros
from ...isa.functions import keep, register
from ...isa.masked import first_of

Expr = Any
Combine = Callable[[Expr, Expr], Expr]
Load = Callable[..., Expr]
"""``load(first, width)``, or ``load(first, width, count)`` if only ``count`` elements exist."""

LOWEST = -3.4028234663852886e38
_WAYS = 4  # independent reductions hide the latency of an addition
_CHAINS = 8  # of vectors that one core adds as it loads them


def chunk(index: Expr, length: AnySize, lanes: int, body: Callable[..., None]) -> None:
    """Emit the vector of number ``index`` among those with which :func:`~.along` covers a row.

    Parameters
    ----------
    index : Expr
        Number of the vector.
    length : int or Size
        Elements of the row.
    lanes : int
        Elements of a vector.
    body : callable
        ``body(first, width)`` emits the code of one vector. Of an open row, the one that is not
        full is ``body(first, lanes, count)``.
    """
    if isinstance(length, Size):
        begin = bind(index * lanes)
        count = bind(length - begin)
        with T.If(count >= lanes):
            with T.Then():
                body(begin, lanes)
            with T.Else():
                body(begin, lanes, count)
        return
    full, rest = divmod(length, lanes)
    select(
        index,
        [
            (full, lambda i: body(i * lanes, lanes)),
            (1 if rest else 0, lambda _: body(full * lanes, rest)),
        ],
    )


def reduce_row(length: AnySize, lanes: int, load: Load, combine: Combine, initial: float) -> Expr:
    """Combine all of ``load(first, width)`` along a row into one number.

    Parameters
    ----------
    length : int or Size
        Elements of the row.
    lanes : int
        Elements of a vector.
    load : callable
        Returns ``width`` elements from ``first``. Of an open row, the last ones may not exist.
    combine : callable
        An associative operation on two vectors.
    initial : float
        The neutral element of ``combine``.

    Returns
    -------
    Expr
        A scalar in a register.
    """
    if isinstance(length, Size):
        return _reduce_open(length, lanes, load, combine, initial)
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


def _reduce_open(length: Size, lanes: int, load: Load, combine: Combine, initial: float) -> Expr:
    """Combine the elements of a row whose length is open, as :func:`reduce_row` does."""
    neutral = splat(T.float32(initial), lanes)
    registers = Accumulators(_WAYS, lanes, neutral)

    def add(way: Expr, vector: Expr) -> None:
        registers[way] = combine(registers[way], load(vector * lanes, lanes))

    full = bind(length // lanes)
    rounds = bind(T.floordiv(full, _WAYS))
    loop(rounds, lambda i: unroll(0, _WAYS, lambda way: add(way, i * _WAYS + way)))
    loop(bind(full - rounds * _WAYS), lambda i: add(0, rounds * _WAYS + i))
    begin = bind(full * lanes)
    count = bind(length - begin)
    with T.If(count > 0), T.Then():
        rest = first_of(load(begin, lanes, count), count, neutral)
        registers[_WAYS - 1] = combine(registers[_WAYS - 1], rest)
    total = registers[0]
    for way in range(1, _WAYS):
        total = combine(total, registers[way])
    return keep(fold(total, lanes, combine))


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
