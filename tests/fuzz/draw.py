# SPDX-License-Identifier: Apache-2.0
"""A network while it is drawn: random choices, and the operands that operators find or make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from .network import Network, Node, Tensor, is_float

T = TypeVar("T")

LARGEST = 1e4  # of a value: what is larger loses too many digits when it is subtracted again
_MOST_ELEMENTS = 40_000


class Refused(Exception):
    """An operator that cannot be applied; another one is drawn in its place."""


class Evaluator(Protocol):
    """What knows the types of a front end's operators, and their values where they are cheap."""

    front: str
    opset: int

    def form(self, node: Node, constants: dict[str, np.ndarray]) -> Node:
        """A node as the front end's operator set has it.

        Raises
        ------
        Refused
            When it has none.
        """

    def evaluate(
        self, node: Node, types: dict[str, Tensor], values: dict[str, np.ndarray]
    ) -> list[tuple[Tensor, np.ndarray | None]]:
        """The results of ``node``.

        Raises
        ------
        Refused
            When the node cannot be evaluated.
        """


class Draw:
    """A network that grows.

    Parameters
    ----------
    random : numpy.random.Generator
    evaluator : Evaluator
    zeros : bool
        Whether inputs may have axes without elements.
    floats : str
        The type of what is asked for in float32.

    Attributes
    ----------
    values : dict of str to numpy.ndarray
        What each value is, of the inputs that were drawn with the network; absent where the front
        end does not evaluate operator by operator.
    exact : set of str
        Values without rounding errors: only these are given to operators that jump, such as a
        comparison.
    jumps : bool
        Whether such an operator was drawn, or tried.
    """

    def __init__(
        self,
        random: np.random.Generator,
        evaluator: Evaluator,
        zeros: bool = False,
        floats: str = "float32",
    ) -> None:
        self.random, self.evaluator, self.zeros, self.floats = random, evaluator, zeros, floats
        self.types: dict[str, Tensor] = {}
        self.values: dict[str, np.ndarray] = {}
        self.inputs: dict[str, Tensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.exact: set[str] = set()
        self.jumps = False
        self.read: set[str] = set()

    @property
    def opset(self) -> int:
        return self.evaluator.opset

    def network(self, outputs: Sequence[str]) -> Network:
        """What was drawn, with these outputs."""
        front, opset = self.evaluator.front, self.evaluator.opset
        examples = {name: self.values[name] for name in self.inputs}
        nodes = tuple(self.nodes)
        network = Network(
            front, opset, self.inputs, self.constants, nodes, (), self.types, examples, self.jumps
        )
        return network.needed(outputs)

    # Choices.

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        return int(self.random.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def pick(self, options: Sequence[T]) -> T:
        if not options:
            raise Refused
        return options[self.integer(0, len(options) - 1)]

    def some(self, options: Sequence[T], least: int = 1) -> list[T]:
        """A random subset, in order."""
        count = self.integer(min(least, len(options)), len(options))
        return [options[i] for i in sorted(self.random.permutation(len(options))[:count])]

    def extent(self) -> int:
        """An axis: odd sizes around the widths of vectors, and now and then one, or none."""
        if self.zeros and self.chance(0.15):
            return 0
        return self.pick([1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17])

    def shape(self, rank: int) -> tuple[int, ...]:
        if rank >= 4:  # an image
            shape = [self.pick([1, 1, 1, 2, 3]), self.pick([1, 3, 4, 8, 15, 16, 17, 20, 33])]
            shape += [self.pick([1, 2, 3, 5, 6, 7, 9, 12, 14]) for _ in range(rank - 2)]
            if rank > 4:
                shape = [min(n, 6) for n in shape]
        else:
            shape = [self.extent() for _ in range(rank)]
        if self.zeros and rank and self.chance(0.15):
            shape[self.integer(0, rank - 1)] = 0
        return tuple(shape)

    # Operands.

    def operand(
        self,
        rank: int | Sequence[int] | None = None,
        dtype: str | Sequence[str] = "float32",
        where: Callable[[str], bool] | None = None,
        exact: bool = False,
    ) -> str:
        """A value that fits: one that is there, preferably not yet read, or a new input.

        Parameters
        ----------
        rank : int or sequence of int, optional
        dtype : str or sequence of str
        where : callable, optional
            What else must hold of a value that is there, and of a new one.
        exact : bool
            Whether it must be exact.
        """
        self.jumps |= exact
        ranks = range(5) if rank is None else (rank,) if isinstance(rank, int) else tuple(rank)
        dtypes = [dtype] if isinstance(dtype, str) else list(dtype)
        if "float32" in dtypes:
            dtypes.append(self.floats)
        fitting = [
            name
            for name, tensor in self.types.items()
            if name not in self.constants
            and len(tensor.shape) in ranks
            and tensor.dtype in dtypes
            and (name in self.exact or not exact)
            and (where is None or where(name))
        ]
        if fitting and self.chance(0.93):
            unread = [name for name in fitting if name not in self.read]
            return self.pick(unread if unread and self.chance(0.6) else fitting)
        if len(self.inputs) >= 6:
            return self.pick(fitting)
        likely = [r for r in ranks if r == 4] * 3 + [r for r in ranks if r]
        name = self.input(self.shape(self.pick(likely or list(ranks))), self.pick(dtypes))
        if where is not None and not where(name):
            raise Refused
        return name

    def input(self, shape: Sequence[int], dtype: str = "float32") -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.types[name] = Tensor(tuple(map(int, shape)), self._typed(dtype))
        self.values[name] = random_array(self.random, self.inputs[name])
        self.exact.add(name)
        return name

    def constant(self, values: Any, dtype: str | None = None, single: bool = False) -> str:
        """A constant; one of float32 is of that type with ``single`` only."""
        array = np.asarray(values, dtype)
        if not single:
            array = array.astype(self._typed(str(array.dtype)))
        name = f"c{len(self.constants)}"
        self.constants[name] = self.values[name] = array
        self.types[name] = Tensor(array.shape, str(array.dtype))
        self.exact.add(name)
        return name

    def _typed(self, dtype: str) -> str:
        return self.floats if dtype == "float32" else dtype

    def weights(self, *shape: int, fan: int | None = None) -> str:
        """Factors of which ``fan`` are added up, so that sums are about as large as operands."""
        count = int(np.prod(shape[1:])) if fan is None else fan
        values = self.random.standard_normal(shape) * max(count, 1) ** -0.5
        if self.chance(0.1):
            values[self.random.random(shape) < 0.5] = 0.0
        return self.constant(values, "float32")

    def numbers(self, *shape: int) -> str:
        return self.constant(self.random.standard_normal(shape), "float32")

    def partner(self, name: str) -> str:
        """An operand that broadcasts to the shape of ``name``, of its type."""
        tensor = self.types[name]

        def fits(other: str) -> bool:
            return broadcasts(self.types[other].shape, tensor.shape)

        if self.chance(0.6):
            same = [n for n, t in self.types.items() if t.dtype == tensor.dtype and fits(n)]
            alike = [n for n in same if self.types[n].shape == tensor.shape]
            if same:
                return self.pick(alike if alike and self.chance(0.7) else same)
        shape = [1 if self.chance(0.35) else n for n in tensor.shape]
        if len(shape) == 4 and self.chance(0.3):
            shape = [1, tensor.shape[1], 1, 1]
        shape = shape[self.integer(0, len(shape)) :] if self.chance(0.2) else shape
        if self.chance(0.25) and len(self.inputs) < 6:
            return self.input(shape, tensor.dtype)
        return self.constant(random_array(self.random, Tensor(tuple(shape), tensor.dtype)))

    def within(self, low: float, high: float) -> Callable[[str], bool]:
        """What holds of values that all lie in an interval."""

        def test(name: str) -> bool:
            array = self.values.get(name)
            return array is not None and bool(np.all((array >= low) & (array <= high)))

        return test

    def dims(self, name: str) -> tuple[int, ...]:
        return self.types[name].shape

    def dtype(self, name: str) -> str:
        return self.types[name].dtype

    # Operators.

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: int = 1,
        exact: bool = False,
        **attributes: Any,
    ) -> str:
        """Apply an operator, and return the first of its results.

        Parameters
        ----------
        exact : bool
            Whether results are exact where all operands are.

        Raises
        ------
        Refused
            When it cannot be evaluated, or its results are too large in any way.
        """
        names = tuple(f"v{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs))
        node = self.evaluator.form(Node(op, tuple(inputs), names, attributes), self.constants)
        results = self.evaluator.evaluate(node, self.types, self.values)
        for tensor, array in results:
            if tensor.size > _MOST_ELEMENTS or (tensor.size == 0 and not self.zeros):
                raise Refused
            if array is not None and not _tame(array):
                raise Refused
        self.nodes.append(node)
        self.read.update(node.inputs)
        kept = exact and all(name in self.exact for name in inputs if name)
        for name, (tensor, array) in zip(names, results, strict=True):
            self.types[name] = tensor
            if array is not None:
                self.values[name] = array
            if kept or "float" not in tensor.dtype:
                self.exact.add(name)
        return names[0]


def _tame(array: np.ndarray) -> bool:
    """Whether numbers are finite and not very large."""
    if not is_float(array):
        return True
    return bool(np.all(np.isfinite(array))) and np.abs(array).max(initial=0.0) <= LARGEST


def broadcasts(shape: Sequence[int], result: Sequence[int]) -> bool:
    """Whether a tensor of ``shape`` broadcasts to ``result`` and leaves that as it is."""
    if len(shape) > len(result):
        return False
    pairs = zip(reversed(shape), reversed(result), strict=False)
    return all(size in (1, whole) for size, whole in pairs)


def random_array(random: np.random.Generator, tensor: Tensor) -> np.ndarray:
    """Normally distributed numbers, small integers, or truth values."""
    if tensor.dtype == "bool":
        return random.integers(0, 2, tensor.shape).astype("bool")
    if tensor.dtype.startswith("uint"):
        return random.integers(0, 9, tensor.shape).astype(tensor.dtype)
    if tensor.dtype.startswith("int"):
        return random.integers(-8, 9, tensor.shape).astype(tensor.dtype)
    return np.asarray(random.standard_normal(tensor.shape)).astype(tensor.dtype)
