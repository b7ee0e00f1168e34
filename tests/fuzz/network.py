# SPDX-License-Identifier: Apache-2.0
"""A network as data, which can be built by a front end, printed, and made smaller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

HALVES = ("float16", "bfloat16")
"""Floating-point types of 16 bits."""

DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
"""The binary digits of floating-point types, those of the fewest first."""


def is_float(array: np.ndarray) -> bool:
    """Return whether an array holds floating-point numbers; NumPy has no kind for bfloat16."""
    return array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16


@dataclass(frozen=True)
class Tensor:
    """A value's type."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype="int64"))

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Node:
    """An operator's call; operands and results are names, an operand that is left out is empty."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        attributes = "".join(f", {k}={v!r}" for k, v in self.attributes.items())
        return f"{', '.join(self.outputs)} = {self.op}({', '.join(self.inputs)}{attributes})"


@dataclass(frozen=True)
class Network:
    """A network of one front end.

    Attributes
    ----------
    front : str
        ``onnx`` or ``relax``.
    opset : int
        ONNX's; 0 of other front ends.
    inputs : dict of str to Tensor
    constants : dict of str to numpy.ndarray
    nodes : tuple of Node
        In a topological order.
    outputs : tuple of str
        Any values, repeated or not.
    types : dict of str to Tensor
        Of all values.
    examples : dict of str to numpy.ndarray
        The inputs that it was drawn with; its operators need not take others.
    jumps : bool
        Whether some operator asked for operands without rounding errors.
    """

    front: str
    opset: int
    inputs: dict[str, Tensor]
    constants: dict[str, np.ndarray]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    types: dict[str, Tensor]
    examples: dict[str, np.ndarray]
    jumps: bool = False

    @property
    def kind(self) -> str:
        """The front end, its operator set and the floating-point type of the fewest digits."""
        types = {tensor.dtype for tensor in self.types.values()}
        coarsest = next((dtype for dtype in DIGITS if dtype in types), "no numbers")
        return f"{self.front} {self.opset or ''} {coarsest}"

    @property
    def operators(self) -> list[str]:
        return [f"{self.front}.{node.op}" for node in self.nodes]

    def needed(self, outputs: Iterable[str]) -> Network:
        """The network of these outputs, without nodes and constants that none of them needs."""
        outputs = tuple(outputs)
        read, kept = set(outputs), []
        for node in reversed(self.nodes):
            if read.intersection(node.outputs):
                kept.append(node)
                read.update(node.inputs)
        constants = {name: array for name, array in self.constants.items() if name in read}
        return replace(self, constants=constants, nodes=tuple(reversed(kept)), outputs=outputs)

    def cut(self, values: Mapping[str, np.ndarray]) -> Network:
        """The network with values as inputs, which computes them no more."""
        inputs = {**self.inputs, **{name: self.types[name] for name in values}}
        nodes = tuple(n for n in self.nodes if not set(n.outputs) <= values.keys())
        whole = replace(self, inputs=inputs, nodes=nodes, examples={**self.examples, **values})
        return whole.needed(self.outputs)

    def coarsest(self, output: str) -> str:
        """The floating-point type of the fewest digits that an output is computed in."""
        part = self.needed([output])
        names = {output, *(name for node in part.nodes for name in node.inputs if name)}
        types = {self.types[name].dtype for name in names}
        return next((dtype for dtype in DIGITS if dtype in types), "float64")

    @property
    def terms(self) -> int:
        """The numbers that one operator adds up at most."""
        return max((self._terms(node) for node in self.nodes), default=1)

    def _terms(self, node: Node) -> int:
        sizes = [self.types[name].size for name in node.inputs if name]
        results = sum(self.types[name].size for name in node.outputs)
        # Of a product the weights, or of a reduction what it reads, by results.
        kernel = int(np.prod(node.attributes.get("kernel_shape", [1])))
        last = [self.types[name].shape[-1:] or (1,) for name in node.inputs if name]
        factors = [self.types[name].shape[1:2] or (1,) for name in node.inputs[1:2] if name]
        deepest = max((n for (n,) in (*last, *factors)), default=1)
        return max(kernel * deepest, max(sizes, default=1) // max(results, 1))

    def __str__(self) -> str:
        lines = [f"{self.front} {self.opset or ''}".strip()]
        lines += [f"  input {name}: {tensor}" for name, tensor in self.inputs.items()]
        lines += [f"  constant {n}: {_show(array)}" for n, array in self.constants.items()]
        for node in self.nodes:
            types = ", ".join(str(self.types[name]) for name in node.outputs)
            lines.append(f"  {node}: {types}")
        return "\n".join([*lines, f"  return {', '.join(self.outputs)}"])


def _show(array: np.ndarray) -> str:
    tensor = Tensor(array.shape, str(array.dtype))
    return f"{tensor} = {array.tolist()}" if array.size <= 8 else str(tensor)
