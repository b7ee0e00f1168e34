# SPDX-License-Identifier: Apache-2.0
"""A list of ONNX nodes under construction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .operators import INTERNAL

if TYPE_CHECKING:
    import onnx


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node by name."""
    import onnx

    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def described(node: onnx.NodeProto) -> str:
    """Return the operator of a node, and the node's name if it has one."""
    return f"{node.op_type} {node.name!r}" if node.name else node.op_type


class Nodes:
    """Nodes that replace those of a graph, and their constants.

    Parameters
    ----------
    graph : onnx.GraphProto
        The graph with its inferred shapes.
    opset : int
        The version of the operators.

    Attributes
    ----------
    nodes : list of onnx.NodeProto
    constants : list of onnx.TensorProto
    values : list of onnx.ValueInfoProto
        The results of our own operators.
    """

    def __init__(self, graph: onnx.GraphProto, opset: int) -> None:
        self._opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: list[onnx.ValueInfoProto] = []
        values = (*graph.input, *graph.value_info, *graph.output)
        self._types = {value.name: value.type.tensor_type for value in values}
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self._taken = {*self._types, *self._weights}
        self._taken.update(name for node in graph.node for name in (*node.input, *node.output))

    def keep(self, node: onnx.NodeProto) -> None:
        """Take over a node as it is."""
        self.nodes.append(node)

    def add(
        self, kind: str, *inputs: str, output: str | None = None, name: str = "", **given: Any
    ) -> str:
        """Append a node of one output, and return the output's name."""
        output = self._new(kind) if output is None else output
        self.extend(kind, inputs, [output], name, **given)
        return output

    def extend(
        self, kind: str, inputs: Any, outputs: list[str], name: str = "", **given: Any
    ) -> list[str]:
        """Append a node of several outputs, and return their names."""
        import onnx

        self.nodes.append(onnx.helper.make_node(kind, list(inputs), outputs, name, **given))
        return outputs

    def own(
        self, kind: str, inputs: Sequence[str], shapes: Iterable[Sequence[int]], **given: Any
    ) -> list[str]:
        """Append a node of our own domain, and return the names of its results, of float32."""
        import onnx

        real, make = onnx.TensorProto.FLOAT, onnx.helper.make_tensor_value_info
        values = [make(self._new(kind), real, shape) for shape in shapes]
        self.values += values
        names = [value.name for value in values]
        return self.extend(kind, inputs, names, domain=INTERNAL, **given)

    def listed(self, kind: str, name: str, *values: int) -> tuple[list[str], dict[str, Any]]:
        """Return a list of an operator as a further input or as an attribute.

        Newer versions of operators take lists, such as axes, as inputs.

        Parameters
        ----------
        kind : str
            The operator.
        name : str
            What the attribute is called where there is one.
        *values : int
            The list.

        Returns
        -------
        tuple of list of str and dict
            The inputs and the attributes to add.
        """
        import onnx

        if name in onnx.defs.get_schema(kind, self._opset).attributes:
            return [], {name: list(values)}
        return [self.int64s(*values)], {}

    def unsqueezed(self, value: str, *axes: int) -> str:
        """Add axes of one element."""
        inputs, given = self.listed("Unsqueeze", "axes", *axes)
        return self.add("Unsqueeze", value, *inputs, **given)

    def new(self, kind: str, count: int) -> list[str]:
        """Return names for results."""
        return [self._new(kind) for _ in range(count)]

    def constant(self, array: np.ndarray) -> str:
        """Add a constant, and return its name."""
        import onnx

        name = self._new("constant")
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def int64(self, value: int) -> str:
        """Add a constant integer without axes."""
        return self.constant(np.array(value, "int64"))

    def int64s(self, *values: int) -> str:
        """Add a constant list of integers."""
        return self.constant(np.array(values, "int64"))

    def like(self, value: str, number: float) -> str:
        """Add a constant scalar of the type of a value, which is float32 if that is not known."""
        return self.constant(np.array(number, self.dtype(value)))

    def dtype(self, value: str) -> np.dtype[Any]:
        """Return the type of a value, float32 if that is not known."""
        import onnx

        if value in self._weights:
            return onnx.helper.tensor_dtype_to_np_dtype(self._weights[value].data_type)
        code = self._types[value].elem_type if value in self._types else 0
        return onnx.helper.tensor_dtype_to_np_dtype(code or onnx.TensorProto.FLOAT)

    def shape(self, value: str) -> list[int] | None:
        """Return the shape of a value; None if it is not known."""
        if value in self._weights:
            return list(self._weights[value].dims)
        if value not in self._types or not self._types[value].HasField("shape"):
            return None
        dims = self._types[value].shape.dim
        return [d.dim_value for d in dims] if all(d.HasField("dim_value") for d in dims) else None

    def array(self, value: str) -> np.ndarray | None:
        """Return a weight; None if the value is computed."""
        import onnx

        found = self._weights.get(value)
        return None if found is None else onnx.numpy_helper.to_array(found)

    def _new(self, kind: str) -> str:
        name = f"{kind}/{len(self._taken)}"
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name
