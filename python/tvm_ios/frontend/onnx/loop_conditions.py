# SPDX-License-Identifier: Apache-2.0
"""Conditions of loops that only count their steps, beside a number of steps.

TensorFlow's loops over the steps of a sequence are written so: each compares its counters with the
length, which is the number of steps, too. Such a condition becomes false after the last step, and
not before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...sizes.size import AnySize, Size, known_equal
from .nodes import is_standard
from .tensors import dtype_of_code

if TYPE_CHECKING:
    import onnx

Known = Callable[[str], "np.ndarray | None"]
"""Returns the number of a value around the loop, or an open size; None if it is computed."""

_SAME = ("Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape")
_WIDE = ("bool", "int32", "int64", "float32", "float64")
"""Types of casts that keep truths, and counters up to 2^24."""


def holds_before_the_end(graph: onnx.GraphProto, count: Size, initial: Known, known: Known) -> bool:
    """Return whether the condition of a ``Loop`` is true after each step but the last one.

    Parameters
    ----------
    graph : GraphProto
        The step.
    count : Size
        The number of steps.
    initial : callable
        Returns the first value of a state, by the name that it has in the graph.
    known : callable
        Returns the value of what the graph reads from outside.
    """
    return _Counters(graph, count, initial, known).hold(graph.output[0].name)


class _Counters:
    def __init__(self, graph: onnx.GraphProto, count: Size, initial: Known, known: Known) -> None:
        self._count, self._initial, self._known = count, initial, known
        self._producers = {
            name: node for node in graph.node if _is_plain(node) for name in node.output
        }
        self._own = {v.name for v in graph.input} | {n for node in graph.node for n in node.output}
        number, _, *states = (value.name for value in graph.input)
        self._number = number
        self._following = dict(zip(states, (v.name for v in graph.output[1:]), strict=False))
        self._weights = {tensor.name: tensor for tensor in graph.initializer}

    def hold(self, condition: str) -> bool:
        """Return whether a condition is true after all steps but the last."""
        node = self._producers.get(condition)
        if node is None:
            return False
        if node.op_type in _SAME:
            return self.hold(node.input[0])
        if node.op_type == "And":
            return all(map(self.hold, node.input))
        if node.op_type != "Less":
            return False
        ahead, limit = self._ahead(node.input[0]), self._constant(node.input[1])
        # After the step before the last, whose number is the count less 2.
        if ahead is None or limit is None:
            return False
        return ahead <= 1 and known_equal(limit, self._count)

    def _ahead(self, name: str) -> int | None:
        """Return how much more a value is than the number of the step; None of any other one."""
        if name == self._number:
            return 0
        if name in self._following:
            first = self._first(name)
            return first if isinstance(first, int) and self._counts(name) else None
        node = self._producers.get(name)
        if node is None:
            return None
        if node.op_type in _SAME:
            return self._ahead(node.input[0])
        if node.op_type != "Add":
            return None
        for value, added in (node.input, reversed(node.input)):
            ahead, more = self._ahead(value), self._constant(added)
            if ahead is not None and isinstance(more, int):
                return ahead + more
        return None

    def _counts(self, state: str) -> bool:
        """Return whether a state is one more after each step."""
        node = self._producers.get(self._source(self._following[state]))
        if node is None or node.op_type != "Add":
            return False
        pairs = (node.input, list(reversed(node.input)))
        return any(value == state and self._constant(added) == 1 for value, added in pairs)

    def _constant(self, name: str) -> AnySize | None:
        """Return the whole number, or the size, that a value is in all steps."""
        node = self._producers.get(name)
        if node is not None and node.op_type in _SAME:
            return self._constant(node.input[0])
        if name in self._following:
            return self._first(name) if self._source(self._following[name]) == name else None
        if name in self._own:
            return self._of_node(node)
        if name in self._weights:
            import onnx

            return _whole(onnx.numpy_helper.to_array(self._weights[name]))
        return _whole(self._known(name))

    def _of_node(self, node: onnx.NodeProto | None) -> AnySize | None:
        if node is None or node.op_type != "Constant":
            return None
        import onnx

        value = onnx.helper.get_attribute_value(node.attribute[0])
        is_tensor = isinstance(value, onnx.TensorProto)
        return _whole(onnx.numpy_helper.to_array(value) if is_tensor else np.array(value))

    def _source(self, name: str) -> str:
        """Return the value that another one is a copy of."""
        while name in self._producers and self._producers[name].op_type == "Identity":
            name = self._producers[name].input[0]
        return name

    def _first(self, state: str) -> AnySize | None:
        return _whole(self._initial(state))


def _is_plain(node: onnx.NodeProto) -> bool:
    """Return whether a node is an operator of ONNX, and no cast that changes counters."""
    if not is_standard(node.domain):
        return False
    codes = [a.i for a in node.attribute if a.name == "to"]
    return node.op_type != "Cast" or all(dtype_of_code(code) in _WIDE for code in codes)


def _whole(array: np.ndarray | None) -> AnySize | None:
    """Return the only element of an array, if it is a whole number or a size."""
    if array is None or array.size != 1 or array.dtype.kind not in "iufO":
        return None
    number = array.reshape(-1)[0]
    if isinstance(number, Size):
        return number
    return int(number) if float(number).is_integer() else None
