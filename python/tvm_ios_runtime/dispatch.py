# SPDX-License-Identifier: Apache-2.0
"""The choice of the functions that compute a call, by the shapes of its inputs.

A call whose shapes are those of a signature runs that function. Where the library's compiler found
that rows of the batch do not depend on each other, a batch of another size is split into parts of
the sizes there are, and the last part is padded: the parts take the least time together, by what
the compiler measured. Where it found that zeros at the end of another axis change nothing but the
results of these, a smaller size is padded to a larger one.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import empty
from .signatures import Axes, Signature

_REMEMBERED = 1024  # plans
_CALL = 1e-3  # of the elements of the smallest call: what a call costs where nothing was measured


@dataclass(frozen=True)
class Part:
    """A call of a function with some rows of the batch.

    Attributes
    ----------
    signature : int
    begin, end : int
        The rows; all of them if the batch does not vary.
    """

    signature: int
    begin: int
    end: int


@dataclass(frozen=True)
class Plan:
    """How a call is served.

    Attributes
    ----------
    parts : tuple of Part
        In the order of their rows.
    sizes : tuple of int
        The size of each axis in the call.
    """

    parts: tuple[Part, ...]
    sizes: tuple[int, ...]


class Dispatcher:
    """Serves calls by the functions of a library.

    Parameters
    ----------
    signatures : sequence of Signature
    axes : Axes
    splits : bool
        Whether the batch may be split and padded.
    pads : frozenset of int
        The axes that may be padded with zeros.
    """

    def __init__(
        self, signatures: Sequence[Signature], axes: Axes, splits: bool, pads: frozenset[int]
    ) -> None:
        self.signatures, self.axes = tuple(signatures), axes
        opened = (i for i, signature in enumerate(self.signatures) if signature.is_open)
        self._general = next(opened, None)
        self._splits = splits
        self._batch, self._pads = (axes.batch if splits else None), pads
        self._exact = {signature.shapes: i for i, signature in enumerate(self.signatures)}
        self._cheapest = functools.lru_cache(_REMEMBERED)(self._find_cheapest)

    @staticmethod
    def from_metadata(metadata: Mapping[str, Any]) -> Dispatcher:
        """Return what serves the calls of a library."""
        described = metadata.get("signatures", [metadata])
        signatures = list(map(Signature.from_metadata, described))
        splits, pads = metadata.get("splits", False), frozenset(metadata.get("pads", ()))
        axes = Axes.of([s for s in signatures if not s.is_open] or signatures)
        return Dispatcher(signatures, axes, splits, pads)

    @property
    def any_batch(self) -> bool:
        """Whether all inputs have a batch, which may be of any size."""
        if self._general is not None:
            return self._splits
        inputs = range(len(self.signatures[0].inputs))
        return self._batch is not None and all(map(self._has_batch, inputs))

    def exact(self, arrays: Sequence[Any]) -> int | None:
        """Return the signature for exactly the shapes of ``arrays``, else that of any shape."""
        found = self._exact.get(tuple(tuple(array.shape) for array in arrays))
        if found is not None or self._general is None:
            return found
        infos = self.signatures[self._general].inputs
        fits = all(info.fits(array) for info, array in zip(infos, arrays, strict=True))
        return self._general if fits else None

    def plan(self, arrays: Sequence[np.ndarray]) -> Plan:
        """Return how a call is served whose shapes are those of no signature.

        Raises
        ------
        ValueError
            If it cannot be.
        """
        sizes = None if self._general is not None else self._sizes(arrays)
        plan = None if sizes is None else self._cheapest(sizes)
        if plan is None:
            raise self.refusal(arrays)
        return plan

    def refusal(self, arrays: Sequence[np.ndarray]) -> ValueError:
        """Return the error of a call that cannot be served."""
        got = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
        return ValueError(f"The model takes {self.describe()}; got {got}.")

    def describe(self) -> str:
        """Return what can be served, as a part of a sentence."""
        if self._general is not None:
            return ", ".join(map(str, self.signatures[self._general].inputs))
        taken = "; or ".join(", ".join(map(str, s.inputs)) for s in self.signatures)
        served = [", or any other batch"] if self._batch is not None else []
        for number in sorted(self._pads):
            axis = self.axes.axes[number]
            tensor, dimension = min(axis.inputs)
            name = self.signatures[0].inputs[tensor].name
            served.append(f", or fewer than {max(axis.sizes)} in dimension {dimension} of {name}")
        return taken + "".join(served)

    def run(
        self,
        arrays: Sequence[np.ndarray],
        call: Callable[[int, list[np.ndarray]], list[np.ndarray]],
    ) -> list[np.ndarray]:
        """Compute a call by the parts of its plan.

        Parameters
        ----------
        arrays : sequence of numpy.ndarray
        call : callable
            Runs the function of a signature, given by its number, on inputs of its shapes.

        Raises
        ------
        ValueError
            As :meth:`plan`.
        """
        plan = self.plan(arrays)
        results: list[np.ndarray] = []
        for part in plan.parts:
            inputs = [self._input(plan, part, i, array) for i, array in enumerate(arrays)]
            outputs = call(part.signature, inputs)
            if len(plan.parts) == 1:
                return [self._cropped(plan, part, i, array) for i, array in enumerate(outputs)]
            if not results:
                results = [self._result(plan, i, array) for i, array in enumerate(outputs)]
            for i, array in enumerate(outputs):
                results[i][part.begin : part.end] = self._cropped(plan, part, i, array)
        return results

    def _sizes(self, arrays: Sequence[np.ndarray]) -> tuple[int, ...] | None:
        """Return the size of each axis; None if the arrays differ from signatures in other ways."""
        first = self.signatures[0].inputs
        shapes = [list(info.shape) for info in first]
        for array, info, shape in zip(arrays, first, shapes, strict=True):
            if array.dtype != info.dtype or array.ndim != len(shape):
                return None
        sizes = []
        for axis in self.axes.axes:
            found = {arrays[tensor].shape[dimension] for tensor, dimension in axis.inputs}
            if len(found) > 1 or 0 in found:
                return None
            sizes.append(found.pop())
            for tensor, dimension in axis.inputs:
                shapes[tensor][dimension] = sizes[-1]
        fits = all(list(a.shape) == shape for a, shape in zip(arrays, shapes, strict=True))
        return tuple(sizes) if fits else None

    def _find_cheapest(self, sizes: tuple[int, ...]) -> Plan | None:
        plans = [plan for group in self._groups(sizes) if (plan := self._cover(sizes, group))]
        return min(plans, key=self._seconds, default=None)

    def _groups(self, sizes: tuple[int, ...]) -> Iterator[list[int]]:
        """Yield signatures that serve these sizes and differ in nothing but the batch."""
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        others = [number for number in range(len(sizes)) if number != self._batch]
        for signature in range(len(self.signatures)):
            own = tuple(self.axes.axes[number].sizes[signature] for number in others)
            serves = (
                size == sizes[number] or (number in self._pads and size > sizes[number])
                for number, size in zip(others, own, strict=True)
            )
            if all(serves):
                groups[own].append(signature)
        yield from groups.values()

    def _cover(self, sizes: tuple[int, ...], group: Sequence[int]) -> Plan | None:
        """Return the plan of least time that serves a batch by signatures of a group."""
        if self._batch is None:
            return Plan((Part(group[0], 0, 0),), sizes)
        rows, by_signature = sizes[self._batch], self.axes.axes[self._batch].sizes
        group = [signature for signature in group if by_signature[signature]]
        if not group:  # a function of no rows computes none
            return None
        costs = [(by_signature[s], self._cost(s)) for s in group]
        parts, begin = [], 0
        for number in cover(rows, costs):
            end = min(rows, begin + costs[number][0])
            parts.append(Part(group[number], begin, end))
            begin = end
        return Plan(tuple(parts), sizes)

    def _seconds(self, plan: Plan) -> float:
        return sum(self._cost(part.signature) for part in plan.parts)

    def _cost(self, signature: int) -> float:
        """Return the seconds of a call; where any is unknown, the elements of its axes."""
        known = [s.seconds for s in self.signatures if s.seconds is not None]
        if len(known) == len(self.signatures):
            return known[signature]
        sizes = zip(*(axis.sizes for axis in self.axes.axes), strict=True)
        elements = [float(math.prod(own)) for own in sizes]
        return elements[signature] + _CALL * min(filter(None, elements))

    def _input(self, plan: Plan, part: Part, number: int, array: np.ndarray) -> np.ndarray:
        """Return the rows of an input, padded with zeros to the shape that the function takes."""
        rows = array[part.begin : part.end] if self._has_batch(number) else array
        shape = self.signatures[part.signature].shapes[number]
        if rows.shape == shape:
            return rows
        padded = empty([size or 0 for size in shape], array.dtype)
        padded[...] = 0
        padded[tuple(map(slice, rows.shape))] = rows
        return padded

    def _has_batch(self, number: int) -> bool:
        return self._batch is not None and (number, 0) in self.axes.axes[self._batch].inputs

    def _cropped(self, plan: Plan, part: Part, number: int, array: np.ndarray) -> np.ndarray:
        """Return an output without the results of padding."""
        return array[tuple(slice(size) for size in self._shape(plan, part, number, array))]

    def _shape(self, plan: Plan, part: Part, number: int, array: np.ndarray) -> list[int]:
        shape = list(array.shape)
        for axis, size in enumerate(plan.sizes):
            rows = part.end - part.begin if axis == self._batch else size
            for place in self.axes.axes[axis].outputs:
                if place[0] == number:
                    shape[place[1]] = rows
        return shape

    def _result(self, plan: Plan, number: int, array: np.ndarray) -> np.ndarray:
        """Return an array for an output of all parts."""
        assert self._batch is not None, "only a batch is split"
        whole = Part(0, 0, plan.sizes[self._batch])
        return np.empty(self._shape(plan, whole, number, array), array.dtype)


def cover(rows: int, costs: Sequence[tuple[int, float]]) -> list[int]:
    """Return which sizes cover a number of rows at the least cost, each as often as it is named.

    Parameters
    ----------
    rows : int
    costs : sequence of (int, float)
        Sizes, of which one is above 0, and their costs.

    Returns
    -------
    list of int
        Indices into ``costs``; the larger sizes first.
    """
    # In a cheapest cover other sizes than the one with the least cost a row occur, together, less
    # often than that one has rows: as many of them have a subset whose rows are a multiple of it.
    covering = [(i, size, cost) for i, (size, cost) in enumerate(costs) if size > 0]
    cheapest, step, _ = min(covering, key=lambda entry: entry[2] / entry[1])
    repeated = max(0, rows - step * max(size for size, _ in costs)) // step
    rest = rows - repeated * step
    best: list[tuple[float, int]] = [(0.0, -1)]
    for count in range(1, rest + 1):
        best.append(min((best[max(0, count - size)][0] + cost, i) for i, size, cost in covering))
    chosen = [cheapest] * repeated
    while rest > 0:
        chosen.append(best[rest][1])
        rest -= costs[chosen[-1]][0]
    return sorted(chosen, key=lambda i: -costs[i][0])
