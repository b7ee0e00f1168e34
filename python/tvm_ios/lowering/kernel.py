# SPDX-License-Identifier: Apache-2.0
"""What is known of a kernel, whatever kind of device it is for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeVar

from ..ops.tensor import TensorSpec
from ..support.keys import remembering


@dataclass(frozen=True)
class Kernel(ABC):
    """A function that computes an operator, or several that were replaced by one.

    Attributes
    ----------
    name : str
        For tables and messages.
    key : Hashable
        Equal for kernels that are the same code.
    inputs, outputs : tuple of TensorSpec
    scratch : tuple of TensorSpec
        Memory that only this kernel uses, and all that compute it share.
    """

    name: str
    key: Hashable
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    scratch: tuple[TensorSpec, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", remembering(self.key))

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """Inputs, outputs and scratch memory, as the function takes them."""
        return self.inputs + self.outputs + self.scratch

    @property
    @abstractmethod
    def num_tiles(self) -> int:
        """The most that can be computed at the same time."""

    @property
    @abstractmethod
    def num_phases(self) -> int:
        """How often all that compute it wait for each other."""

    @property
    def plane(self) -> object:
        """How its tiles cover the result, where a part of it can be computed on its own."""
        return None

    @property
    def is_noop(self) -> bool:
        """Whether there is nothing to do, as the result is in place already."""
        return False

    @property
    def alternatives(self) -> tuple[Hashable, ...]:
        """The keys of kernels that may compute the same in horizontal fusion."""
        return ()


K = TypeVar("K", bound=Kernel)
"""The kernels of one back end."""

K_co = TypeVar("K_co", bound=Kernel, covariant=True)
"""The same, of what is only read."""
