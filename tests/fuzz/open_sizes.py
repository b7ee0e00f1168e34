# SPDX-License-Identifier: Apache-2.0
"""A network some of whose dimensions are left open, and the sizes that it is called with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from .draw import random_array
from .generate import random_of
from .network import Network, Node, Tensor
from .onnx_front import to_model

_OPENED = 0.5  # of the dimensions of inputs
_SHARED = 0.8  # of those that are as long as another one have its name
_COMPUTED = 0.8  # of the sizes among operands that may be those of another tensor
_MOST_FACTORS = 3
_LARGEST = 20
CALLS = 5


@dataclass(frozen=True)
class OpenNetwork:
    """A network and its open dimensions.

    Attributes
    ----------
    network : Network
        One whose operators compute the shapes that depend on them.
    shapes : dict of str to sequence of (int or str)
        Of its inputs, with the names of open dimensions.
    sizes : dict of str to int
        The sizes of those that it was drawn with.
    """

    network: Network
    shapes: dict[str, tuple[int | str, ...]]
    sizes: dict[str, int]

    def model(self) -> onnx.ModelProto:
        """Return it as an ONNX model, which does not say the sizes of outputs."""
        model = to_model(self.network)
        for value in model.graph.input:
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, self.shapes[value.name], strict=True):
                if isinstance(size, str):
                    dim.dim_param = size
        for value in model.graph.output:
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
        return model

    def inputs(self, sizes: dict[str, int], random: np.random.Generator) -> dict[str, np.ndarray]:
        """Return random inputs of some sizes; those that it was drawn with, at their sizes."""
        if sizes == self.sizes:
            return self.network.examples
        result = {}
        for name, shape in self.shapes.items():
            known = tuple(sizes[size] if isinstance(size, str) else size for size in shape)
            result[name] = random_array(random, Tensor(known, self.network.types[name].dtype))
        return result

    def calls(self, random: np.random.Generator) -> list[dict[str, int]]:
        """Return sizes of five calls: those that it was drawn with, of all 1, and others."""
        result = [self.sizes, dict.fromkeys(self.sizes, 1)]
        while len(result) < CALLS:
            some = random.random(len(self.sizes)) < random.choice([0.5, 1.0])
            drawn = random.integers(1, _LARGEST + 1, len(self.sizes)).tolist()
            pairs = zip(self.sizes.items(), drawn, some, strict=True)
            result.append({name: new if take else old for (name, old), new, take in pairs})
        return [result[i] for i in random.permutation(CALLS)]

    def __str__(self) -> str:
        shapes = ", ".join(f"{name}: {list(shape)}" for name, shape in self.shapes.items())
        return f"open dimensions {shapes}\n{self.network}"


def with_open_sizes(network: Network, seed: int) -> OpenNetwork | None:
    """Return an ONNX network with some dimensions open; None where it has none that can be.

    What is drawn for an input does not depend on others, so that a smaller network stays alike.
    """
    sizes: dict[str, int] = {}

    def opened(size: int, random: np.random.Generator) -> int | str:
        if not size or random.random() >= _OPENED:
            return size
        alike = [name for name, known in sizes.items() if known == size]
        if alike and random.random() < _SHARED:
            return alike[random.integers(len(alike))]
        name = f"d{len(sizes)}"
        sizes[name] = size
        return name

    shapes: dict[str, tuple[int | str, ...]] = {}
    for name, tensor in network.inputs.items():
        random = random_of(seed, f"open {name}")
        shapes[name] = tuple(opened(size, random) for size in tensor.shape)
    return OpenNetwork(_computing(network, seed), shapes, sizes) if sizes else None


def _computing(network: Network, seed: int) -> Network:
    """Return a network that computes shapes for Reshape and Expand from their operands."""
    nodes: list[Node] = []
    constants, types = dict(network.constants), dict(network.types)

    def constant(values: Sequence[int]) -> str:
        name = f"s{len(constants)}"
        constants[name] = np.array(values, "int64")
        types[name] = Tensor((len(values),), "int64")
        return name

    def add(op: str, *inputs: str, length: int = 1, **attributes: int) -> str:
        name = f"s_{len(nodes)}"
        nodes.append(Node(op, inputs, (name,), attributes))
        types[name] = Tensor((length,), "int64")
        return name

    def computed(node: Node) -> Node:
        x, target = node.inputs
        dims, wanted = types[x].shape, constants[target].tolist()
        shape, parts = add("Shape", x, length=len(dims)), []
        random = random_of(seed, f"open {node.outputs[0]}")
        for size in wanted:
            axes = _factors(dims, size)
            if not axes or random.random() >= _COMPUTED:
                parts.append(constant([size]))
                continue
            factors = [add("Gather", shape, constant([axis]), axis=0) for axis in axes]
            part = factors[0]
            for factor in factors[1:]:
                part = add("Mul", part, factor)
            parts.append(part)
        return replace(node, inputs=(x, add("Concat", *parts, length=len(parts), axis=0)))

    for node in network.nodes:
        takes = node.op in ("Reshape", "Expand") and node.inputs[1] in network.constants
        if takes and types[node.inputs[0]].shape and len(constants[node.inputs[1]]):
            node = computed(node)
        nodes.append(node)
    whole = replace(network, nodes=tuple(nodes), constants=constants, types=types)
    return whole.needed(network.outputs)


def _factors(dims: Sequence[int], size: int) -> list[int]:
    """Return the axes that follow each other and have a product; none for 1 and less."""
    if size <= 1:
        return []
    ranges: Iterator[range] = itertools.chain.from_iterable(
        (range(begin, begin + count) for begin in range(len(dims) - count + 1))
        for count in range(1, _MOST_FACTORS + 1)
    )
    return next((list(axes) for axes in ranges if math.prod(dims[a] for a in axes) == size), [])
