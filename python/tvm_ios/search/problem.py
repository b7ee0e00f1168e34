# SPDX-License-Identifier: Apache-2.0
"""What the search knows of a network: operators, values, and names of what computes them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from tvm import relax

from ..graph.operators import OperatorGraph


class Kernel(Protocol):
    """What computes an operator."""

    @property
    def key(self) -> Hashable:
        """Equal for kernels that take equally long."""


class Implementation(Protocol):
    """How an operator is computed."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def inputs(self) -> Sequence[Any]:
        """Values of the function, and constants."""

    @property
    def outputs(self) -> Sequence[relax.Var]: ...


class Slot(Protocol):
    """A value's place in another one."""

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
    """Which operators may be replaced together by one.

    Attributes
    ----------
    classes : sequence of int
        Per operator a number that those share of which any two or more may be replaced; -1 for all
        others.
    sets : mapping
        Further sets that may be replaced, each as a whole.
    """

    @property
    def classes(self) -> Sequence[int]: ...

    @property
    def sets(self) -> Mapping[tuple[int, ...], Named]: ...

    @property
    def together(self) -> Sequence[int]:
        """Per operator a number that those share which a cut should not part; else -1."""

    def within(self, block: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """Return the sets whose operators are all in the block."""


class Limits(Protocol):
    """What the search may form, and how far it looks; see :class:`tvm_ios.options.Options`."""

    @property
    def max_group_size(self) -> int | None: ...

    @property
    def max_num_groups(self) -> int | None: ...

    @property
    def max_block_size(self) -> int: ...

    @property
    def measure_all(self) -> bool: ...

    @property
    def strategies(self) -> Sequence[str]: ...
