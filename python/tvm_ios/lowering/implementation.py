# SPDX-License-Identifier: Apache-2.0
"""How every operator of a graph is computed."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from tvm import relax

from ..graph.operators import OperatorGraph
from ..ops.tensor import TensorSpec
from ..relax_ir.expressions import held_shape
from ..sizes.size import AnySize, hint_of
from .kernel import K, K_co, Kernel
from .value import Value


@dataclass(frozen=True)
class Implementation(Generic[K_co]):
    """How an operator, or several merged into one, is computed.

    Attributes
    ----------
    operators : tuple of int
        Indices in the graph; several when they were merged.
    kernel : Kernel
    inputs : tuple of relax.Var or numpy.ndarray
        What the kernel's inputs are: values of the function, or constants packed for it.
    outputs : tuple of relax.Var
        What the kernel's outputs are.
    """

    operators: tuple[int, ...]
    kernel: K_co
    inputs: tuple[Value, ...]
    outputs: tuple[relax.Var, ...]


@dataclass(frozen=True)
class Slot:
    """A value's place: ``offset`` bytes into the tensor of the value ``target``."""

    target: relax.Var
    offset: AnySize


@dataclass(frozen=True)
class LoweredGraph(Generic[K_co]):
    """An operator graph with an implementation for every operator.

    A back end derives its own, with the types of its layouts and with what its rules need.

    Attributes
    ----------
    graph : OperatorGraph
    implementations : tuple of Implementation or None
        None for an operator that stays as TVM wrote it; it has a stage of its own.
    layouts : mapping of relax.Var to Hashable
        How each value lies in memory; row-major where nothing is said.
    slots : mapping of relax.Var to Slot
        Values that are written in place into a concatenation, see
        :mod:`tvm_ios.lowering.inplace`.
    """

    graph: OperatorGraph
    implementations: tuple[Implementation[K_co] | None, ...]
    layouts: Mapping[relax.Var, Hashable] = field(default_factory=dict)
    slots: Mapping[relax.Var, Slot] = field(default_factory=dict)

    @cached_property
    def opaque(self) -> frozenset[int]:
        """Operators that never share a stage."""
        return frozenset(i for i, impl in enumerate(self.implementations) if impl is None)


def moved_bytes(
    implementation: Implementation[Kernel], slots: Mapping[relax.Var, Slot]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the bytes that a kernel accesses of each of its inputs and outputs.

    The tensor of a value in a slot may be the larger one; only the value is accessed.
    """

    def num_bytes(value: Value, spec: TensorSpec) -> int:
        if isinstance(value, np.ndarray) or value not in slots:
            return hint_of(spec.num_bytes)
        own = TensorSpec(held_shape(value), str(value.ty.dtype))
        return min(hint_of(spec.num_bytes), hint_of(own.num_bytes))

    kernel = implementation.kernel
    read = zip(implementation.inputs, kernel.inputs, strict=True)
    written = zip(implementation.outputs, kernel.outputs, strict=not kernel.is_noop)
    return tuple(num_bytes(*pair) for pair in read), tuple(num_bytes(*pair) for pair in written)


G = TypeVar("G", bound=LoweredGraph[Any])
"""The lowered graphs of one back end."""


def present(lowered: LoweredGraph[K]) -> list[Implementation[K]]:
    """Return the implementations of the operators that have kernels."""
    return [i for i in lowered.implementations if i is not None]


def constants(
    lowered: LoweredGraph[Kernel], dtypes: Collection[str] = ("float32",)
) -> list[TensorSpec]:
    """Return the specs of all kernels' weights, which are constants of these types."""
    return [
        spec
        for i in present(lowered)
        for value, spec in zip(i.inputs, i.kernel.inputs, strict=True)
        if isinstance(value, np.ndarray) and spec.dtype in dtypes
    ]
