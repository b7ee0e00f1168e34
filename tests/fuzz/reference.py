# SPDX-License-Identifier: Apache-2.0
"""What a network computes by another implementation, and whether results agree with that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property

import numpy as np

from . import onnx_front, relax_front
from .compare import HALF_EPSILON, difference, half_difference
from .network import Network, is_float

FRONTS = {"onnx": onnx_front, "relax": relax_front}


class Wrong(Exception):
    """A result that is not what it should be.

    Parameters
    ----------
    message : str
    output : str, optional
        Which one.
    """

    def __init__(self, message: str, output: str | None = None) -> None:
        super().__init__(message)
        self.output = output


class NoReference(Exception):
    """A network that the other implementation cannot compute."""

    @property
    def is_a_limit(self) -> bool:
        """Whether the other implementation lacks this, or refuses numbers; the sizes are right."""
        return any(text in str(self) for text in ("only supports", "Integer division by zero"))


class Lenience(Enum):
    """What is asked of results that are computed from numbers that are not finite."""

    NONE = 0
    """That they are those of the reference."""
    WINOGRAD = 1
    """That none is finite that should not be: others are computed with numbers that the reference
    leaves out."""
    REPLACED = 2
    """Nothing of those that should be no number, either: a replacement that adds weights up has no
    infinities of two signs."""


class Reference:
    """The values of a network for some inputs.

    Parameters
    ----------
    network : Network
    inputs : dict of str to numpy.ndarray
    lenient : Lenience
    half : bool
        Whether what is compared is computed in half precision.
    """

    def __init__(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],
        lenient: Lenience = Lenience.NONE,
        *,
        half: bool = False,
    ) -> None:
        self.network, self.inputs, self._lenient = network, dict(inputs), lenient
        self._half = half
        self._front = FRONTS[network.front]

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """All values in the network's own types.

        Raises
        ------
        NoReference
        """
        try:
            return self._front.reference(self.network, self.inputs)
        except Exception as error:  # another implementation's
            raise NoReference(str(error)) from error

    @cached_property
    def _double(self) -> dict[str, np.ndarray] | None:
        """All values in double precision; None where that cannot be had."""
        try:
            return self._front.double_reference(self.network, self.inputs)
        except Exception:  # another implementation's
            return None

    @cached_property
    def _nudged(self) -> dict[str, np.ndarray] | None:
        """As above, with numbers moved to neighbours in the network's own types.

        These are the inputs and constants, and what operators round.
        """
        return self._moved(_neighbour)

    @cached_property
    def _rounded(self) -> dict[str, np.ndarray] | None:
        """As above, with numbers moved as far as rounding to bfloat16 may move them."""
        return self._moved(_rounded_to_half)

    def _moved(
        self, move: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    ) -> dict[str, np.ndarray] | None:
        random = np.random.default_rng(0)
        constants = {name: move(a, random) for name, a in self.network.constants.items()}
        inputs = {name: move(array, random) for name, array in self.inputs.items()}
        try:
            return self._front.double_reference(
                replace(self.network, constants=constants),
                inputs,
                lambda array: move(array.astype("float32"), random).astype("float64"),
            )
        except Exception:  # another implementation's, as of an operator that takes whole numbers
            return None

    def check(self, results: Sequence[np.ndarray]) -> None:
        """Raise Wrong unless the results are those of the network's outputs."""
        outputs = self.network.outputs
        if len(results) != len(outputs):
            raise Wrong(f"{len(results)} results, not {len(outputs)}")
        for name, actual in zip(outputs, results, strict=True):
            expected = self.values[name]
            if self._lenient is not Lenience.NONE and actual.shape == expected.shape:
                actual = np.where(np.isfinite(actual), actual, expected)
            if self._lenient is Lenience.REPLACED and actual.shape == expected.shape:
                actual = np.where(np.isnan(expected), expected, actual)
            coarsest = self.network.coarsest(name) if is_float(expected) else ""
            terms = self.network.terms
            double = self._looked_up("_double", name)
            if self._half:
                rounded = self._looked_up("_rounded", name)
                wrong = half_difference(actual, expected, double, rounded)
            else:
                nudged = self._looked_up("_nudged", name)
                wrong = difference(actual, expected, coarsest, terms, double, nudged)
            if wrong:
                raise Wrong(f"{name}: {wrong}", name)

    def _looked_up(self, values: str, name: str) -> Callable[[], np.ndarray | None]:
        return lambda: (getattr(self, values) or {}).get(name)


def agree(
    network: Network,
    results: Sequence[np.ndarray],
    others: Sequence[np.ndarray],
    output: str | None,
) -> bool:
    """Whether two lists of a network's results are equal but for rounding, in one output or all."""
    for name, one, other in zip(network.outputs, results, others, strict=True):
        if output not in (None, name):
            continue
        coarsest = network.coarsest(name) if is_float(other) else ""
        if difference(one, other, coarsest, network.terms, lambda: None, lambda: None):
            return False
    return True


def _neighbour(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The next numbers above or below those of an array of floating-point numbers."""
    if not is_float(array):
        return array
    towards = random.choice([-np.inf, np.inf], array.shape)
    return np.asarray(np.nextafter(array, towards.astype(array.dtype)))  # also without axes


def _rounded_to_half(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return numbers as far away as rounding to bfloat16 may move them, up or down."""
    if not is_float(array):
        return array
    moved = array * (1 + random.uniform(-HALF_EPSILON, HALF_EPSILON, array.shape))
    return np.asarray(moved.astype(array.dtype))
