# SPDX-License-Identifier: Apache-2.0
"""What is known of a kernel, whatever kind of device it is for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from ...tir.tensor import TensorSpec


class Kernel(Protocol):
    """A function that computes an operator, or several that were replaced by one.

    Attributes
    ----------
    name : str
        For tables and messages.
    key : Hashable
        Equal for kernels that are the same code.
    inputs, outputs : sequence of TensorSpec
    tiles : int
        The most that can be computed at the same time.
    steps : int
        How often all that compute it wait for each other.
    plane : object
        How its tiles cover the result, where a part of it can be computed on its own; else None.
    """

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> Hashable: ...

    @property
    def inputs(self) -> Sequence[TensorSpec]: ...

    @property
    def outputs(self) -> Sequence[TensorSpec]: ...

    @property
    def tiles(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def plane(self) -> object: ...

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        """Inputs, outputs and scratch memory."""

    @property
    def free(self) -> bool:
        """Whether there is nothing to do, as the result is in place already."""


K = TypeVar("K", bound=Kernel)
"""The kernels of one back end."""

K_co = TypeVar("K_co", bound=Kernel, covariant=True)
"""The same, of what is only read."""
