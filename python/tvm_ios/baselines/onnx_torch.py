# SPDX-License-Identifier: Apache-2.0
"""ONNX graphs as PyTorch modules, for the operators that networks of the literature consist of.

The result is straight-line code of PyTorch's own functions, so that its compiler meets what a
person would have written. Published converters need torchvision, whose build has to match torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from torch import fx

Tensor: TypeAlias = fx.Proxy  # stands for a torch.Tensor while the code is written
Operator = Callable[..., Any]


@dataclass(frozen=True)
class Node:
    """What the graph fixes of an operator: attributes, inputs that are constants."""

    attributes: Mapping[str, Any]
    constants: tuple[np.ndarray | None, ...]
    outputs: int

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def ints(self, index: int, name: str = "") -> list[int] | None:
        """Whole numbers that are an input, or in older versions of ONNX an attribute."""
        array = self.constants[index] if index < len(self.constants) else None
        given = self.get(name) if array is None else array.reshape(-1)
        return None if given is None else [int(value) for value in given]

    def known_ints(self, index: int, name: str = "") -> list[int]:
        """Return the integers of an input that PyTorch must know at conversion.

        Raises
        ------
        NotImplementedError
            When they are computed, or left out.
        """
        found = self.ints(index, name)
        if found is None:
            raise NotImplementedError(f"an operator whose input {index} is no constant")
        return found


def to_module(model: onnx.ModelProto) -> fx.GraphModule:
    """Return the model as a module from its inputs to a tuple of its outputs.

    Raises
    ------
    NotImplementedError
        For an operator, or a form of one, that is not here.
    """
    writer = _Writer(model.graph)
    for node in model.graph.node:
        writer.write(node)
    return writer.finish(model.graph)


class _Writer:
    """Writes the code, node by node."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._root, self._graph = torch.nn.Module(), fx.Graph()
        self._tracer = fx.proxy.GraphAppendingTracer(self._graph)
        self._constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        inputs = [value.name for value in graph.input if value.name not in self._constants]
        placeholders = [self._graph.placeholder(f"x_{i}") for i in range(len(inputs))]
        self._values = dict(zip(inputs, map(self._proxy, placeholders), strict=True))

    def write(self, node: onnx.NodeProto) -> None:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            self._constants[node.output[0]] = numpy_helper.to_array(attributes["value"])
            return
        operator = OPERATORS.get(node.op_type)
        if operator is None:
            raise NotImplementedError(f"ONNX operator {node.op_type}")
        constants = tuple(self._constants.get(name) for name in node.input)
        tensors = [self._value(name) if name else None for name in node.input]
        result = operator(Node(attributes, constants, len(node.output)), *tensors)
        results = (
            [result] if len(node.output) == 1 else [result[i] for i in range(len(node.output))]
        )
        self._values.update(zip(node.output, results, strict=True))

    def finish(self, graph: onnx.GraphProto) -> fx.GraphModule:
        self._graph.output(tuple(self._value(value.name).node for value in graph.output))
        self._graph.eliminate_dead_code()  # constants that became arguments
        return fx.GraphModule(self._root, self._graph)

    def _value(self, name: str) -> Tensor:
        """Return a computed value, or a constant as a buffer of the module."""
        if name not in self._values:
            attribute = f"constant_{len(self._values)}"
            array = np.array(self._constants[name])  # a copy that may be written to
            self._root.register_buffer(attribute, torch.from_numpy(array))
            self._values[name] = self._proxy(self._graph.get_attr(attribute))
        return self._values[name]

    def _proxy(self, node: fx.Node) -> Tensor:
        return fx.Proxy(node, self._tracer)


def _padding(node: Node) -> tuple[list[int], list[int]]:
    """(height, width) in front and behind."""
    if node.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise NotImplementedError("auto_pad")
    before, after = np.array(node.get("pads", (0, 0, 0, 0))).reshape(2, 2).tolist()
    return before, after


def _pad(x: Tensor, before: list[int], after: list[int], fill: float) -> Tensor:
    """Pad an image as the PyTorch operator cannot do itself."""
    return F.pad(x, (before[1], after[1], before[0], after[0]), value=fill)


def _conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    before, after = _padding(node)
    if before != after:
        x, before = _pad(x, before, after, 0.0), [0, 0]
    strides, dilations = node.get("strides", [1, 1]), node.get("dilations", [1, 1])
    return F.conv2d(x, weight, bias, strides, before, dilations, node.get("group", 1))


def _window(node: Node) -> tuple[list[int], list[int], bool] | None:
    """Strides, padding and whether to round up of a pool, if PyTorch's can do it.

    Padding behind alone, of one less than the stride, is what rounding up amounts to.
    """
    (before, after), strides = _padding(node), node.get("strides", [1, 1])
    up = bool(node.get("ceil_mode", 0))
    if before == [0, 0] and after == [stride - 1 for stride in strides] and not up:
        return strides, before, True
    fits = all(2 * p <= k for p, k in zip(before, node.get("kernel_shape"), strict=True))
    return (strides, before, up) if before == after and fits else None


def _max_pool(node: Node, x: Tensor) -> Tensor:
    window = _window(node)
    if window is None:
        x = _pad(x, *_padding(node), -np.inf)
        window = node.get("strides", [1, 1]), [0, 0], bool(node.get("ceil_mode", 0))
    strides, padding, up = window
    kernel, dilations = node.get("kernel_shape"), node.get("dilations", [1, 1])
    return F.max_pool2d(x, kernel, strides, padding, dilations, up)


def _average_pool(node: Node, x: Tensor) -> Tensor:
    counted, window = bool(node.get("count_include_pad", 0)), _window(node)
    one_sided = _padding(node)[0] != _padding(node)[1]
    if window is None or (one_sided and counted):
        raise NotImplementedError("AveragePool with such a padding")
    strides, padding, up = window
    return F.avg_pool2d(x, node.get("kernel_shape"), strides, padding, up, counted)


def _batch_norm(
    node: Node, x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    return F.batch_norm(x, mean, variance, scale, offset, eps=node.get("epsilon", 1e-5))


def _layer_norm(node: Node, x: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    factors = node.constants[1]
    if factors is None:
        raise NotImplementedError("LayerNormalization with a scale that is computed")
    return F.layer_norm(x, factors.shape, scale, offset, node.get("epsilon", 1e-5))


def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a, b = (t.t() if node.get(n, 0) else t for t, n in ((a, "transA"), (b, "transB")))
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    return alpha * (a @ b) if c is None else torch.addmm(c, a, b, beta=beta, alpha=alpha)


def _reshape(node: Node, x: Tensor, _shape: Tensor) -> Tensor:
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(node.known_ints(1))])


def _squeeze(node: Node, x: Tensor, _axes: Tensor | None = None) -> Tensor:
    return torch.squeeze(x, tuple(node.known_ints(1, "axes")))


def _unsqueeze(node: Node, x: Tensor, _axes: Tensor | None = None) -> Tensor:
    for axis in sorted(node.known_ints(1, "axes")):
        x = torch.unsqueeze(x, axis)
    return x


def _slice(node: Node, x: Tensor, *_bounds: Tensor) -> Tensor:
    starts, ends = node.known_ints(1), node.known_ints(2)
    axes = node.ints(3) or range(len(starts))
    steps = node.ints(4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = x[_along(axis, slice(start, end, step))]
    return x


def _along(axis: int, index: Any) -> tuple[Any, ...]:
    """Index one axis, counted from either end."""
    if axis >= 0:
        return (*[slice(None)] * axis, index)
    return (..., index, *[slice(None)] * (-axis - 1))


def _split(node: Node, x: Tensor, _sizes: Tensor | None = None) -> Tensor:
    sizes, axis = node.ints(1, "split"), node.get("axis", 0)
    return torch.chunk(x, node.outputs, axis) if sizes is None else torch.split(x, sizes, axis)


def _gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis, constant = node.get("axis", 0), node.constants[1]
    if constant is not None and constant.ndim == 0:
        return torch.select(x, axis, int(constant))
    return x[_along(axis, indices)]


def _clip(node: Node, x: Tensor, *_bounds: Tensor) -> Tensor:
    given = (*node.constants, None, None)[1:3]
    low, high = (
        node.get(name) if bound is None else float(bound)
        for bound, name in zip(given, ("min", "max"), strict=True)
    )
    return torch.clamp(x, low, high)


def _mean(node: Node, x: Tensor, _axes: Tensor | None = None) -> Tensor:
    return torch.mean(x, node.ints(1, "axes"), keepdim=bool(node.get("keepdims", 1)))


def _flatten(node: Node, x: Tensor) -> Tensor:
    if node.get("axis", 1) != 1:
        raise NotImplementedError("Flatten other than behind the first axis")
    return torch.flatten(x, 1)


def _plain(function: Operator) -> Operator:
    """Return the converter of an operator that has only tensors as arguments."""
    return lambda _node, *tensors: function(*tensors)


OPERATORS: dict[str, Operator] = {
    "Add": _plain(torch.add),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": lambda node, *tensors: torch.cat(tensors, node.get("axis")),
    "Conv": _conv,
    "Div": _plain(torch.div),
    "Dropout": lambda _node, x, *_: x,
    "Erf": _plain(torch.erf),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda _node, x: torch.mean(x, (2, 3), keepdim=True),
    "Identity": lambda _node, x: x,
    "LayerNormalization": _layer_norm,
    "MatMul": _plain(torch.matmul),
    "MaxPool": _max_pool,
    "Mul": _plain(torch.mul),
    "Pow": _plain(torch.pow),
    "ReduceMean": _mean,
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Sigmoid": _plain(torch.sigmoid),
    "Slice": _slice,
    "Softmax": lambda node, x: torch.softmax(x, node.get("axis", -1)),
    "Split": _split,
    "Sqrt": _plain(torch.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(torch.sub),
    "Tanh": _plain(torch.tanh),
    "Transpose": lambda node, x: torch.permute(x, node.get("perm")),
    "Unsqueeze": _unsqueeze,
}
