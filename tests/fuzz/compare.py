# SPDX-License-Identifier: Apache-2.0
"""How far a result may be from a reference.

In three steps, of which most results need the first only:

1. A result as near to the reference in single precision as rounding the largest of its numbers a
   few times explains agrees with it. What is no floating-point number must be equal.
2. Else both are compared with the network in double precision. Ours may err sixteen times as much
   as the reference in single precision does itself, or as its result changes when all inputs and
   constants and what operators round move to a neighbouring number, and by what the order of the
   longest sum among its operators explains. The first is small by chance at times, as where values
   cancel each other.
3. Where there is nothing in double precision, the second part of that counts alone, doubled for
   every operator that passes an error on.

Networks of 16-bit numbers are computed in single precision, and rounded at their ends. The largest
error must thus not be larger than that of the reference, which rounds after every operator, by more
than a few roundings of the largest number.

Results in half precision may be off by many times what the result changes when all numbers move as
far as rounding to bfloat16 moves them. That finds what is wrong, not what is rounded too often.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .network import DIGITS, HALVES, is_float

_LEAST = 1e-25  # what is nearer to each other is equal: some exponentials end at zero before
_ROUNDINGS = 64.0  # of the largest number: what is nearer is not looked at closely
_WORSE = 16.0
HALF_EPSILON = 2.0**-8  # of bfloat16
_FEW = 4.0  # roundings, half of a last place each, of a result of 16 bits


def difference(
    actual: np.ndarray,
    expected: np.ndarray,
    coarsest: str,
    terms: int,
    double: Callable[[], np.ndarray | None],
    nudged: Callable[[], np.ndarray | None],
) -> str | None:
    """What is wrong with a result; None if nothing is.

    Parameters
    ----------
    actual, expected : numpy.ndarray
    coarsest : str
        The floating-point type of the fewest digits that they are computed in.
    terms : int
        Of the longest sum on the way to the result.
    double, nudged : callable
        The reference in double precision, of the inputs and of their neighbours; or None where
        there is none.
    """
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype}{list(actual.shape)}, not {expected.dtype}{list(expected.shape)}"
    if not is_float(actual):
        return _unequal(actual, expected)
    error = error_of(actual, expected)
    epsilon, halves = 2.0 ** -DIGITS[coarsest], coarsest in HALVES
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    near = (_FEW if halves else _ROUNDINGS) * epsilon * scale + _LEAST
    if error <= near:
        return None
    exact = double()
    own, sums = 0.0, 8.0 * (terms**0.5 + 8.0) * epsilon * scale
    worse = _WORSE
    if exact is not None and exact.shape == expected.shape:
        error, own = error_of(actual, exact), error_of(expected, exact)
        if halves:
            worse, sums = 1.0, near
        near_by = nudged() if not halves and error > worse * own + sums else None
        if near_by is not None and near_by.shape == exact.shape:
            finite = np.isfinite(exact) & np.isfinite(near_by)
            own = max(own, error_of(near_by[finite], exact[finite]))
    if error <= max(near, worse * own + sums):
        return None
    place = np.unravel_index(_distance(actual, expected).argmax(), actual.shape)
    where = ", ".join(map(str, place))
    return (
        f"off by {error:.2e} (the reference by {own:.2e}), where the largest number is "
        f"{scale:.2e}; at [{where}] {float(actual[place]):.8g}, not {float(expected[place]):.8g}"
    )


def half_difference(
    actual: np.ndarray,
    expected: np.ndarray,
    double: Callable[[], np.ndarray | None],
    rounded: Callable[[], np.ndarray | None],
) -> str | None:
    """Return what is wrong with a result in half precision; None if nothing is.

    Parameters
    ----------
    actual, expected : numpy.ndarray
    double, rounded : callable
        The reference in double precision, and the same with numbers that are moved.
    """
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype}{list(actual.shape)}, not {expected.dtype}{list(expected.shape)}"
    if not is_float(actual):
        return _unequal(actual, expected)
    exact, near_by = double(), rounded()
    # Scales of an image that are moved may give it another shape.
    if exact is None or near_by is None or near_by.shape != exact.shape:
        # At least what is a number must be one.
        lost = np.isfinite(expected) & ~np.isfinite(actual)
        return f"{lost.sum()} of {lost.size} are no finite numbers" if lost.any() else None
    finite = np.isfinite(exact) & np.isfinite(near_by)
    scale = float(np.abs(exact[finite]).max(initial=0.0))
    own = error_of(near_by[finite], exact[finite])
    error = error_of(actual[finite], exact[finite])
    if error <= _WORSE * own + 2 * HALF_EPSILON * scale + _LEAST:
        return None
    return f"off by {error:.2e}, rounding by {own:.2e}, where the largest number is {scale:.2e}"


def _unequal(actual: np.ndarray, expected: np.ndarray) -> str | None:
    places = np.argwhere(actual != expected)
    if not len(places):
        return None
    first = tuple(places[0])
    where = ", ".join(map(str, first))
    count = f"{len(places)} of {actual.size} differ"
    return f"{count}; at [{where}] {actual[first]}, not {expected[first]}"


def error_of(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference; infinite where one is no finite number and the other is another."""
    return float(_distance(actual, expected).max(initial=0.0))


def _distance(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    one, other = (np.atleast_1d(a).astype("float64") for a in (actual, expected))
    with np.errstate(invalid="ignore"):
        distance = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    distance[same] = 0.0
    return np.where(np.isnan(distance), np.inf, distance)
