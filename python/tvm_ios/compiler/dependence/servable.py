# SPDX-License-Identifier: Apache-2.0
"""Which other shapes a library of several shapes may serve, as its functions say.

A batch may be split and padded if no row of a result depends on another row. An axis may be padded
if no result depends on what is at its end. What was kept of the inputs, one row or the first
positions, must then be computed in the same way by the functions of all sizes: functions of
different sizes may add different constants.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_ios_runtime.signatures import Axes, Axis, Place, Signature
from tvm_ios_runtime.tensor_info import TensorInfo

from ...relax_ir.expressions import static_shape
from ..artifact import leaves
from .network import results_of
from .ranges import FINITE, TRUTH, ZERO
from .refusal import RefusalError
from .value import Carried, Tracking, Value

_logger = logging.getLogger("tvm_ios")

Network = tuple[tvm.IRModule, str]
"""A module, and the name of a function whose tensors have static shapes."""

Results = list[Value | RefusalError]


@dataclass(frozen=True)
class Servable:
    """What a library may serve besides the shapes that there are functions for.

    Attributes
    ----------
    splits : bool
        Whether the batch may be split and padded.
    pads : frozenset of int
        The axes that may be padded with zeros.
    """

    splits: bool
    pads: frozenset[int]


def find_servable(networks: Sequence[Network]) -> Servable:
    """Find out which rows and positions depend on each other.

    Parameters
    ----------
    networks : sequence of Network
        A prepared network in several shapes; inputs and results are tensors.

    Returns
    -------
    Servable
        With the numbers that :meth:`tvm_ios_runtime.signatures.Axes.of` gives to axes.
    """
    axes = Axes.of([_signature(mod[name]) for mod, name in networks])
    if not axes.complete:
        return Servable(False, frozenset())
    analysis = _Analysis(networks, axes)
    splits = axes.batch is not None and analysis.splits(axes.batch)
    others = [number for number in range(len(axes.axes)) if number != axes.batch]
    return Servable(splits, frozenset(filter(analysis.pads, others)))


class _Analysis:
    def __init__(self, networks: Sequence[Network], axes: Axes) -> None:
        self._networks, self._axes = networks, axes

    def splits(self, number: int) -> bool:
        """Return whether rows of a batch are apart, and all functions do the same to each."""
        axis = self._axes.axes[number]
        keys: dict[Hashable, int] = {}
        try:
            for group in self._groups(number):
                rows = [self._results(s, axis, Tracking(0, 1, True, keys)) for s in group]
                _check_alike(rows)
        except RefusalError as refusal:
            _logger.info("The batch is neither split nor padded: %s.", refusal)
            return False
        return True

    def pads(self, number: int) -> bool:
        """Return whether what is at the end of an axis changes nothing but its own results."""
        axis = self._axes.axes[number]
        keys: dict[Hashable, int] = {}
        try:
            for group in self._groups(number):
                for signature in group:  # also the smallest, which still smaller sizes may use
                    self._results(signature, axis, Tracking(0, 1, False, keys))
                by_size = sorted(group, key=axis.sizes.__getitem__)
                for smaller, larger in itertools.combinations(by_size, 2):
                    tracking = Tracking(0, axis.sizes[smaller], False, keys)
                    _check_alike([self._results(s, axis, tracking) for s in (smaller, larger)])
        except RefusalError as refusal:
            _logger.info("Axis %d is not padded: %s.", number, refusal)
            return False
        return True

    def _groups(self, number: int) -> list[list[int]]:
        """Return the functions that differ in nothing but one axis, together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for signature in range(len(self._networks)):
            sizes = tuple(axis.sizes[signature] for axis in self._axes.axes)
            groups.setdefault(sizes[:number] + sizes[number + 1 :], []).append(signature)
        return list(groups.values())

    def _results(self, signature: int, axis: Axis, tracking: Tracking) -> list[Value]:
        """Return what is known of the results of a function.

        Raises
        ------
        RefusalError
            If rows or positions meet in any, or it does not have them where it should.
        """
        mod, name = self._networks[signature]
        size = axis.sizes[signature]
        tracking = Tracking(
            size if size > tracking.kept else 0, tracking.kept, tracking.rows, tracking.keys
        )
        results = results_of(mod, mod[name], self._inputs(mod[name], axis, tracking), tracking)
        return [_checked(n, result, axis, tracking) for n, result in enumerate(results)]

    def _inputs(self, function: relax.Function, axis: Axis, tracking: Tracking) -> list[Value]:
        return [
            _input(number, parameter, _places(axis.inputs, number), tracking)
            for number, parameter in enumerate(function.params)
        ]


def _signature(function: relax.Function) -> Signature:
    inputs = [parameter.ty for parameter in function.params]
    return Signature("", _infos(inputs), _infos(leaves(function.ret_ty)))


def _infos(types: Sequence[tvm.ir.Type]) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo("", tuple(int(size) for size in ty.shape.values), str(ty.dtype)) for ty in types
    )


def _places(places: frozenset[Place], tensor: int) -> list[int]:
    return sorted(dimension for number, dimension in places if number == tensor)


def _input(number: int, parameter: relax.Var, axes: list[int], tracking: Tracking) -> Value:
    shape = static_shape(parameter, "an input")
    carried = (
        tuple(Carried(axis, padding=ZERO, masked=ZERO) for axis in axes) if tracking.size else ()
    )
    known = TRUTH if str(parameter.ty.dtype) == "bool" else FINITE
    key = tracking.key("input", number)
    return Value(shape, key, tracking.kept_shape(shape, carried), carried, range=known)


def _checked(number: int, result: Value | RefusalError, axis: Axis, tracking: Tracking) -> Value:
    """Return a result that has rows or positions where the library's outputs have them."""
    if isinstance(result, RefusalError):
        raise result
    wanted = _places(axis.outputs, number) if tracking.size else []
    if sorted((c.axis, c.form) for c in result.carried) != [(a, (1, 1)) for a in wanted]:
        raise RefusalError(f"output {number} does not have them where it should")
    return result


def _check_alike(functions: Sequence[list[Value]]) -> None:
    """Raise RefusalError unless functions compute the same of what is kept."""
    if len({tuple((v.key, v.kept) for v in results) for results in functions}) > 1:
        raise RefusalError("the functions of two sizes differ in more than that")
