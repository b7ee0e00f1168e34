# SPDX-License-Identifier: Apache-2.0
"""Evaluation of nodes that compute with open sizes.

Exporters write shapes as computations of sizes. What is open stays an expression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...sizes.arithmetic import broadcast, largest, smallest
from ...sizes.ratio import NotExact, SingleRatio
from ...sizes.size import Size, decide_equal
from .tensors import dtype_of_code

Rule = Callable[..., Any]


def fold_sizes(
    name: str,
    arrays: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    dtypes: Sequence[str],
) -> list[tuple[np.ndarray, str]] | None:
    """Return what a node computes from numbers, some of which are open sizes.

    Parameters
    ----------
    name : str
        The operator, of ONNX's own domain.
    arrays : sequence of array
        The inputs, as arrays of numbers or of objects; None for one that is left out.
    attributes : mapping of str to value
    dtypes : sequence of str
        The types of the inputs that are not left out.

    Returns
    -------
    list of (array of object, str), or None
        The outputs and their types; None for an operator that is left to run. Numbers of a
        floating-point type that depend on open sizes are :class:`.SingleRatio`.
    """
    rule = _RULES.get(name)
    if rule is None or any(a is not None and a.dtype.kind not in "iufbO" for a in arrays):
        return None
    if name in _CHANGED and any(dtype.startswith("float") for dtype in dtypes):
        rule = _OF_FLOATS.get(name, rule)
    given = [None if a is None else a.astype(object) for a in arrays]
    try:
        result = rule(*given, **attributes)
    except NotExact:
        return None
    if result is None:
        return None
    results = result if isinstance(result, list) else [result]
    return [(array, _dtype_of(name, attributes, dtypes)) for array in results]


def _dtype_of(name: str, attributes: Mapping[str, Any], dtypes: Sequence[str]) -> str:
    """Return the type of what an operator computes."""
    if name in _TRUTHS:
        return "bool"
    if name == "Cast":
        dtype = dtype_of_code(attributes["to"])
        assert dtype is not None, "a known type is cast to"
        return dtype
    return dtypes[1 if name == "Where" else 0]


def _elementwise(compute: Callable[..., Any]) -> Rule:
    def fold(*arrays: np.ndarray) -> np.ndarray:
        shape = broadcast(*(a.shape for a in arrays))
        expanded = [np.broadcast_to(a, shape).reshape(-1) for a in arrays]
        return _objects([compute(*items) for items in zip(*expanded, strict=True)], shape)

    return fold


def _objects(items: Sequence[Any], shape: Sequence[Any]) -> np.ndarray:
    result = np.empty(len(items), object)
    result[:] = items
    return result.reshape(tuple(shape))


def _quotient(a: Any, b: Any) -> Any:
    """Divide as ONNX does, towards zero."""
    if b < 0:
        a, b = -a, -b
    return a // b if a >= 0 else -(-a // b)


def _rest(a: Any, b: Any, fmod: int = 0) -> Any:
    return a % b if not fmod else a - b * _quotient(a, b)


_INTEGERS = ("int64", "int32")
_FLOATS = ("float32", "float64")


def _cast(data: np.ndarray, to: int, saturate: int = 1) -> np.ndarray | None:
    dtype = dtype_of_code(to)
    if dtype in _FLOATS:
        return _objects([_as_float(x) for x in data.reshape(-1)], data.shape)
    if dtype in _INTEGERS:
        return _objects([_as_integer(x) for x in data.reshape(-1)], data.shape)
    return None


def _as_float(number: Any) -> Any:
    return SingleRatio.of(number) if isinstance(number, Size | SingleRatio) else float(number)


def _as_integer(number: Any) -> Any:
    if isinstance(number, SingleRatio):
        return number.whole()
    return number if isinstance(number, Size) else int(number)


def _of_floats(compute: Callable[..., Any]) -> Rule:
    """Return the rule of an operator that computes with fractions."""
    return _elementwise(lambda *items: compute(*map(SingleRatio.of, items)))


def _listed(axes: np.ndarray | Sequence[int] | int) -> list[int]:
    return [int(a) for a in np.asarray(axes).reshape(-1)]


def _squeeze(data: np.ndarray, axes: Any = None) -> np.ndarray:
    return np.squeeze(data, None if axes is None else tuple(_listed(axes)))


def _unsqueeze(data: np.ndarray, axes: Any) -> np.ndarray:
    return np.expand_dims(data, tuple(_listed(axes)))


def _gather(data: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray | None:
    if any(isinstance(index, Size) for index in indices.reshape(-1)):
        return None
    return np.take(data, indices.astype(int), axis)


def _slice(
    data: np.ndarray, starts: Any, ends: Any, axes: Any = None, steps: Any = None
) -> np.ndarray | None:
    given = [a for a in (starts, ends, axes, steps) if a is not None]
    if any(isinstance(n, Size) for a in given for n in np.asarray(a).reshape(-1)):
        return None
    first, last = _listed(starts), _listed(ends)
    chosen = list(range(len(first))) if axes is None else _listed(axes)
    by = [1] * len(first) if steps is None else _listed(steps)
    index = [slice(None)] * data.ndim
    for axis, begin, end, step in zip(chosen, first, last, by, strict=True):
        if step < 0:
            return None
        index[axis] = slice(begin, end, step)
    return data[tuple(index)]


def _concat(*arrays: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(arrays, axis)


def _reshape(data: np.ndarray, shape: np.ndarray, allowzero: int = 0) -> np.ndarray | None:
    sizes = _listed(shape)
    return None if 0 in sizes else data.reshape(sizes)


def _reduction(compute: Callable[[Any, Any], Any]) -> Rule:
    def fold(
        data: np.ndarray, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> np.ndarray | None:
        if data.ndim != 1 or not data.size:
            return None
        result = data[0]
        for item in data[1:]:
            result = compute(result, item)
        return _objects([result], [1] * keepdims)

    return fold


def _choose(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def _split(data: np.ndarray, split: Any = None, axis: int = 0, num_outputs: int = 0) -> Any:
    if split is None:
        return np.array_split(data, num_outputs, axis) if num_outputs else None
    return np.split(data, np.cumsum(_listed(split))[:-1], axis)


_RULES: dict[str, Rule] = {
    "Add": _elementwise(operator.add),
    "Sub": _elementwise(operator.sub),
    "Mul": _elementwise(operator.mul),
    "Div": _elementwise(_quotient),
    "Mod": lambda a, b, fmod=0: _elementwise(lambda x, y: _rest(x, y, fmod))(a, b),
    "Neg": _elementwise(operator.neg),
    "Min": _elementwise(smallest),
    "Max": _elementwise(largest),
    "Equal": _elementwise(decide_equal),
    "Less": _elementwise(operator.lt),
    "LessOrEqual": _elementwise(operator.le),
    "Greater": _elementwise(operator.gt),
    "GreaterOrEqual": _elementwise(operator.ge),
    "Where": _elementwise(_choose),
    "Not": _elementwise(operator.not_),
    "And": _elementwise(lambda a, b: bool(a) and bool(b)),
    "Or": _elementwise(lambda a, b: bool(a) or bool(b)),
    "Cast": _cast,
    "Identity": lambda data: data,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Reshape": _reshape,
    "ReduceProd": _reduction(operator.mul),
    "ReduceSum": _reduction(operator.add),
    "ReduceMin": _reduction(smallest),
    "ReduceMax": _reduction(largest),
    "Split": _split,
}

_OF_FLOATS: dict[str, Rule] = {
    "Add": _of_floats(operator.add),
    "Sub": _of_floats(operator.sub),
    "Mul": _of_floats(operator.mul),
    "Div": _of_floats(operator.truediv),
    "Floor": _of_floats(SingleRatio.floor),
    "Ceil": _of_floats(SingleRatio.ceil),
}
_ORDERED = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}
_TRUTHS = {*_ORDERED, "Not", "And", "Or"}
_OF_INTEGERS = {
    *_ORDERED, "Mod", "Neg", "Min", "Max", "ReduceProd", "ReduceSum", "ReduceMin", "ReduceMax",
}  # fmt: skip
_CHANGED = {*_OF_FLOATS, *_OF_INTEGERS}
"""Operators that do not just move numbers."""


def _left_to_run(*_: np.ndarray, **__: Any) -> None:
    return None


_RULES |= dict.fromkeys(("Floor", "Ceil"), _left_to_run)
_OF_FLOATS |= dict.fromkeys(_OF_INTEGERS, _left_to_run)
_OF_FLOATS["Less"] = _of_floats(SingleRatio.is_less)
_OF_FLOATS["Greater"] = _of_floats(lambda a, b: b.is_less(a))
