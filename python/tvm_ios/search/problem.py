# SPDX-License-Identifier: Apache-2.0
"""The search's view of a network: operators, values, and the keys of kernels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from tvm import relax

from ..graph.operators import OperatorGraph
from ..schedule.pruning import PruningLimits


class Kernel(Protocol):
    """A kernel that computes an operator."""

    @property
    def key(self) -> Hashable:
        """A key that is equal for kernels that take equally long."""

    @property
    def is_noop(self) -> bool:
        """Whether there is nothing to do."""


class Implementation(Protocol):
    """An operator's kernel with its inputs and outputs."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def inputs(self) -> Sequence[Any]:
        """Values of the function, and constants."""

    @property
    def outputs(self) -> Sequence[relax.Var]: ...


class Slot(Protocol):
    """The location of a value inside another value's memory."""

    @property
    def target(self) -> relax.Var: ...

    @property
    def offset(self) -> int: ...


class Problem(Protocol):
    """An operator graph with an implementation for every operator that has one."""

    @property
    def graph(self) -> OperatorGraph: ...

    @property
    def implementations(self) -> Sequence[Implementation | None]: ...

    @property
    def layouts(self) -> Mapping[relax.Var, Hashable]: ...

    @property
    def slots(self) -> Mapping[relax.Var, Slot]: ...


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Replaceable(Protocol):
    """The sets of operators that one operator may replace.

    Attributes
    ----------
    classes : sequence of int
        A number for each operator. Any two or more operators with the same number may be replaced;
        -1 for all others.
    sets : mapping
        Further sets that may be replaced, each only as a whole.
    """

    @property
    def classes(self) -> Sequence[int]: ...

    @property
    def sets(self) -> Mapping[tuple[int, ...], Named]: ...

    @property
    def together(self) -> Sequence[int]:
        """A number for each operator; cuts should not separate equal numbers. -1: no constraint."""

    def within(self, block: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """Return the sets whose operators are all in the block."""


class Limits(Protocol):
    """The limits of the search; see :class:`tvm_ios.options.Options`."""

    @property
    def pruning(self) -> PruningLimits: ...

    @property
    def max_block_size(self) -> int: ...

    @property
    def measure_all(self) -> bool: ...

    @property
    def strategies(self) -> Sequence[str]: ...
