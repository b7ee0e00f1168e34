# SPDX-License-Identifier: Apache-2.0
"""Whether a library serves other shapes rightly, tried by running it on random inputs.

What depends on what follows from the network (:mod:`.dependence`). What it allows is tried here,
and may be refused: it is the kernels that run. The function of the largest batch must give the same
bits for a row whatever the others are, and the functions of smaller batches the same answers. Zeros
at the end of an axis must change nothing but the results of these; a text encoder whose mask is an
input is like that.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tvm_ios_runtime import Model
from tvm_ios_runtime.signatures import Axes, Axis, Place

from . import artifact
from .artifact import Serving
from .dependence.servable import Servable
from .scheduler import Scheduler

_ROUNDS, _WINDOW = 5, 0.05  # seconds of a function in a round, but one call at least
_EXACT, _ROUNDED = 1e-4, 5e-2  # of the largest value, in float32 and in half precision
_PADDED = 0.2  # of the tolerance: it alone tells whether what was padded matters
_DRAWS = 3  # of inputs that are padded: what is padded may matter little to some
_NO_INDEX = 21  # bits; an integer input that takes more is no index

Arrays = Sequence[np.ndarray]


def probe(path: Path, scheduler: Scheduler, servable: Servable) -> Serving:
    """Run a library of several shapes.

    Parameters
    ----------
    path : Path
    scheduler : Scheduler
        The network in one of the shapes.
    servable : Servable
        What the network allows; nothing else is tried.
    """
    options = scheduler.options
    tolerance = _EXACT if options.precision == "fp32" else _ROUNDED
    try:
        return _Probe(artifact.load(path), options.seed, tolerance).serving(servable)
    except IndexError:  # 0, or another number that inputs are filled with, is no index
        return Serving()


class _Probe:
    def __init__(self, model: Model, seed: int, tolerance: float) -> None:
        self._model, self._tolerance = model, tolerance
        self._random = np.random.default_rng(seed)
        self._axes = Axes.of(model.signatures)
        self._ranges = [1] * len(model.inputs)

    def serving(self, servable: Servable) -> Serving:
        """Return what is served rightly of what the network allows, and how long calls take."""
        functions = range(len(self._model.signatures))
        self._ranges = [
            min(self._range(number, signature) for signature in functions)
            for number in range(len(self._ranges))
        ]
        seconds = self._time()
        if not self._axes.complete:
            return Serving(seconds)
        batch, axes = self._axes.batch, self._axes.axes
        pads = [number for number in sorted(servable.pads) if self._pads(number, axes[number])]
        splits = servable.splits and batch is not None and self._splits(batch)
        return Serving(seconds, splits, pads)

    def _range(self, number: int, signature: int) -> int:
        """Return below what an input's integers are drawn, as far as one function goes.

        All of the indices that an axis has, because few different ones may hide what depends on
        what; for what is no index 0 and 1, which every network bears.
        """
        dtype = np.dtype(self._model.inputs[number].dtype)
        if not np.issubdtype(dtype, np.integer):
            return 2
        limit = min(_NO_INDEX, np.iinfo(dtype).bits - 1)
        valid, invalid = 0, limit
        while invalid - valid > 1:
            exponent = (valid + invalid) // 2
            arrays = self._inputs(signature)
            arrays[number][...] = 2**exponent - 1
            try:
                self._model(*arrays)
                valid = exponent
            except IndexError:
                invalid = exponent
        return 2**valid if invalid < limit else 2

    def _time(self) -> list[float]:
        """Return the seconds of a call of each function, timed in turn."""
        inputs = [self._inputs(number) for number in range(len(self._model.signatures))]
        samples: list[list[float]] = [[] for _ in inputs]
        for arrays in inputs:
            self._model(*arrays)
        for _ in range(_ROUNDS):
            for arrays, its in zip(inputs, samples, strict=True):
                begin, calls = time.perf_counter(), 0
                while not calls or time.perf_counter() - begin < _WINDOW:
                    self._model(*arrays)
                    calls += 1
                its.append((time.perf_counter() - begin) / calls)
        return [statistics.median(its) for its in samples]

    def _splits(self, number: int) -> bool:
        """Return whether rows of the batch do not depend on each other."""
        axis, pairs = self._axes.axes[number], self._pairs(number)
        return (
            bool(pairs)
            and all(self._rows_are_apart(axis, larger) for larger in {pair[0] for pair in pairs})
            and all(self._agree(axis, *pair) for pair in pairs)
        )

    def _rows_are_apart(self, axis: Axis, signature: int) -> bool:
        """Return whether half of the rows are the same, bit by bit, whatever the others are."""
        given, other = self._inputs(signature), self._inputs(signature)
        expected, half = self._model(*given), axis.sizes[signature] // 2
        for kept, changed in (
            (slice(0, half), slice(half, None)),
            (slice(half, None), slice(half)),
        ):
            arrays = [array.copy() for array in given]
            for (tensor, _), array in self._on(axis.inputs, arrays):
                array[changed] = other[tensor][changed]
            results = self._model(*arrays)
            for a, b in zip(results, expected, strict=True):
                if a[kept].tobytes() != b[kept].tobytes():
                    return False
        return True

    def _agree(self, axis: Axis, larger: int, smaller: int) -> bool:
        """Return whether the last rows of a large batch have the same results in a small one."""
        given, rows = self._inputs(larger), axis.sizes[smaller]
        part = list(given)
        for (tensor, _), array in self._on(axis.inputs, given):
            part[tensor] = array[-rows:]
        expected = [array[-rows:] for array in self._model(*given)]
        return self._close(self._model(*part), expected, self._tolerance)

    def _pads(self, number: int, axis: Axis) -> bool:
        """Return whether zeros at the end of an axis change nothing but their own results."""
        pairs = self._pairs(number) * _DRAWS
        return bool(pairs) and all(self._padding_agrees(axis, *pair) for pair in pairs)

    def _padding_agrees(self, axis: Axis, larger: int, smaller: int) -> bool:
        given, size = self._inputs(smaller), axis.sizes[smaller]
        padded = []
        for array, info in zip(given, self._model.signatures[larger].inputs, strict=True):
            full = np.zeros([n or 0 for n in info.shape], array.dtype)
            full[tuple(map(slice, array.shape))] = array
            padded.append(full)
        results = list(self._model(*padded))
        for (tensor, dimension), array in self._on(axis.outputs, results):
            results[tensor] = array[(slice(None),) * dimension + (slice(size),)]
        return self._close(results, self._model(*given), _PADDED * self._tolerance)

    def _pairs(self, number: int) -> list[tuple[int, int]]:
        """Return the signatures that differ in one axis only, the larger one first."""
        sizes = [*zip(*(axis.sizes for axis in self._axes.axes), strict=True)]
        others = [size[:number] + size[number + 1 :] for size in sizes]
        return [
            (larger, smaller)
            for larger, smaller in itertools.permutations(range(len(sizes)), 2)
            if sizes[larger][number] > sizes[smaller][number] and others[larger] == others[smaller]
        ]

    def _inputs(self, signature: int) -> list[np.ndarray]:
        return [
            self._random_array(number, [n or 0 for n in info.shape], info.dtype)
            for number, info in enumerate(self._model.signatures[signature].inputs)
        ]

    def _random_array(self, number: int, shape: Sequence[int], dtype: str) -> np.ndarray:
        """Return normal floats, or integers in the range of an input."""
        if dtype.startswith(("float", "bfloat")):
            return self._random.standard_normal(shape).astype(dtype)
        return self._random.integers(0, self._ranges[number], shape).astype(dtype)

    def _on(self, places: Iterable[Place], arrays: Arrays) -> list[tuple[Place, np.ndarray]]:
        return [(place, arrays[place[0]]) for place in sorted(places)]

    def _close(self, results: Arrays, expected: Arrays, tolerance: float) -> bool:
        return all(
            _deviation(result, other) <= tolerance
            for result, other in zip(results, expected, strict=True)
        )


def _deviation(result: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest deviation in shares of the largest value; infinity for another shape."""
    if result.shape != expected.shape:
        return float("inf")
    a, b = (array.astype("float64") for array in (result, expected))
    largest = np.abs(b).max(initial=0.0)
    return float(np.abs(a - b).max(initial=0.0) / (largest or 1.0))
