# SPDX-License-Identifier: Apache-2.0
"""Regions: stages that run in one launch, and the memory of their tensors.

Between the stages of a region the workers wait at a barrier instead of returning to the virtual
machine. Values that only the region reads lie in one workspace, in which tensors that are not live
at the same time share memory. Values that are concatenated in place lie inside the concatenation.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from tvm import relax

from ....lowering.implementation import Implementation, Slot
from ....ops.tensor import TensorSpec
from ....sizes.size import AnySize, OpenSizes, unsimplified_sum
from ..kernels.kernel import Finding, Kernel
from ..stage.stage import CpuStage
from .workspace import plan_workspace, tensors_of


@dataclass(frozen=True)
class Place:
    """The location of a tensor: a byte offset into a parameter of the region's driver.

    Attributes
    ----------
    parameter : int or None
        Index of the parameter; None for the constants of the library.
    offset : int or Size
    """

    parameter: int | None
    offset: AnySize = 0


@dataclass(frozen=True)
class Region:
    """The stages of one launch.

    Its driver takes the inputs, the outputs and the workspace.

    Attributes
    ----------
    stages : tuple of CpuStage
    inputs : tuple of relax.Var
        Values that were computed before the region.
    outputs : tuple of relax.Var
        Values that are read after the region.
    output_specs : tuple of TensorSpec
    workspace_bytes : int or Size
    places : mapping of int to tuple of Place
        The places of a kernel's tensors, by the ``id`` of its implementation.
    findings : tuple of (Place, Finding)
        What the driver looks at after the launch, and where that lies.
    """

    stages: tuple[CpuStage, ...]
    inputs: tuple[relax.Var, ...]
    outputs: tuple[relax.Var, ...]
    output_specs: tuple[TensorSpec, ...]
    workspace_bytes: AnySize
    places: Mapping[int, tuple[Place, ...]]
    findings: tuple[tuple[Place, Finding], ...] = ()

    @property
    def num_parameters(self) -> int:
        """The number of parameters that the places refer to."""
        return len(self.inputs) + len(self.outputs) + self.has_workspace

    @property
    def has_workspace(self) -> bool:
        return not isinstance(self.workspace_bytes, int) or self.workspace_bytes > 0

    @property
    def opened(self) -> OpenSizes | None:
        """The open dimensions that any of its kernels depends on."""
        kernels = (i.kernel for stage in self.stages for i in stage.implementations)
        return next((kernel.opened for kernel in kernels if kernel.opened is not None), None)


def form_region(
    stages: Sequence[CpuStage],
    visible: Container[relax.Var],
    slots: Mapping[relax.Var, Slot],
    constants: Mapping[int, int],
) -> Region:
    """Collect the tensors of a region and plan their memory.

    Parameters
    ----------
    stages : sequence of CpuStage
        The stages of the launch, in order.
    visible : container of relax.Var
        Values that are read outside of the region.
    slots : mapping of relax.Var to Slot
        Values that lie inside a concatenation.
    constants : mapping of int to int
        Byte offset of each constant array, by the array's ``id``.

    Returns
    -------
    Region
        The stages with the places of all tensors.
    """
    written = {
        value: spec
        for _, implementation in _enumerate(stages)
        for value, spec in zip(implementation.outputs, implementation.kernel.outputs, strict=True)
    }
    inputs = dict.fromkeys(
        value
        for _, implementation in _enumerate(stages)
        for value in implementation.inputs
        if not isinstance(value, np.ndarray) and value not in written
    )
    arrays = (
        value
        for _, implementation in _enumerate(stages)
        for value in implementation.inputs
        if isinstance(value, np.ndarray) and value.size
    )
    assert all(id(array) in constants for array in arrays), "the library has all constants"
    outputs = [value for value in written if value in visible]
    assert not any(v in slots for v in outputs), "no slot of a concatenation leaves the region"
    parameter: dict[object, int] = {key: i for i, key in enumerate(inputs)}
    parameter.update({key: len(inputs) + i for i, key in enumerate(outputs)})
    workspace = len(inputs) + len(outputs)
    tensors = {
        id(implementation): list(tensors_of(implementation, slots))
        for _, implementation in _enumerate(stages)
    }
    finding = [
        (tensors[id(implementation)][-1], implementation.kernel.finding)
        for _, implementation in _enumerate(stages)
        if implementation.kernel.finding is not None
    ]
    offsets, workspace_bytes = plan_workspace(
        [(number, tensors[id(implementation)]) for number, implementation in _enumerate(stages)],
        {*parameter, *constants},
        {part.root for part, _ in finding},
    )

    @cache
    def place(key: Hashable, offset: AnySize) -> Place:
        if key in parameter:
            return Place(parameter[key], offset)
        if isinstance(key, int) and key in constants:
            return Place(None, constants[key] + offset)
        return Place(workspace, unsimplified_sum(offsets[key], offset))

    places = {
        name: tuple(place(t.root, t.begin) for t in entries) for name, entries in tensors.items()
    }
    return Region(
        tuple(stages),
        tuple(inputs),
        tuple(outputs),
        tuple(written[value] for value in outputs),
        workspace_bytes,
        places,
        tuple((place(part.root, part.begin), found) for part, found in finding),
    )


def _enumerate(stages: Sequence[CpuStage]) -> Iterator[tuple[int, Implementation[Kernel]]]:
    for number, stage in enumerate(stages):
        for implementation in stage.implementations:
            yield number, implementation
