# SPDX-License-Identifier: Apache-2.0
"""Comparison of stages with reference kernels of their operators, on the device.

A kernel that computes something else must not win because it is fast. Every stage therefore runs
once before it is timed. Each of its operators also runs by its reference, the plain kernel of
dlight's fallback, which has one thread for each element of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....lowering.cold import Place
from ....lowering.implementation import Implementation
from ....lowering.stages import Stage
from ....lowering.value import identity
from ....measure.transport.session import KernelFault
from ....ops.tensor import TensorSpec
from ..kernels.kernel import CudaKernel
from ..stage.program import StageProgram
from ..stage.stage import CudaStage, Launch
from .network_tensors import NetworkTensors
from .session_handles import CudaSessionHandles

_TOLERANCE = {"fp32": 1e-4, "tf32": 2e-2, "fp16": 2e-2, "bf16": 1e-1}
"""The largest error by precision, relative to the largest value: some roundings of factors."""

_POISON = np.full(64, 0xFF, "uint8")  # NaN in every floating-point type
_RANDOM = np.random.default_rng(0).standard_normal(1 << 18)


class StageCheck:
    """Checks each stage of a network once.

    Parameters
    ----------
    references : sequence of Implementation or None
        The reference of each operator. A stage with an operator that has none is run, but not
        compared.
    precision : str
        Of the products' factors.
    handles : CudaSessionHandles
        The device.
    tensors : NetworkTensors
        The network's tensors on it.
    """

    def __init__(
        self,
        references: Sequence[Implementation[CudaKernel] | None],
        precision: str,
        handles: CudaSessionHandles,
        tensors: NetworkTensors,
    ) -> None:
        self._references, self._tolerance = references, _TOLERANCE[precision]
        self._handles, self._tensors = handles, tensors
        self._checked: set[object] = set()

    def __call__(self, stage: CudaStage) -> None:
        """Run a stage, and compare its results with those of the references.

        Raises
        ------
        KernelFault
            If they differ.
        """
        program = StageProgram.of(stage, self._tensors.slots)
        known = (tuple(kernel.key for kernel in program.kernels), program.numbers)
        if known in self._checked:
            return
        specs = {
            self._tensors.holder(value): spec
            for launch in stage.launches
            for value, spec in zip(launch.outputs, launch.kernel.outputs, strict=True)
        }
        blank = {key: self._blank(stage, key, spec) for key, spec in specs.items()}
        expected = self._run(self._references_of(stage), "reference", blank)
        found = self._run([stage], "result", blank)
        for key in found.keys() & expected.keys():
            self._compare(program, found[key], expected[key], specs[key])
        self._checked.add(known)

    def _references_of(self, stage: CudaStage) -> list[CudaStage]:
        """Return the references of a stage's operators, each as a stage; none if one is missing."""
        operators = sorted(op for i in stage.implementations for op in i.operators)
        found = [self._references[op] for op in operators]
        present = [alone(reference) for reference in found if reference is not None]
        return [each for each in present if each.launches] if len(present) == len(found) else []

    def _blank(self, stage: CudaStage, tensor: object, spec: TensorSpec) -> np.ndarray:
        """Return what fills a tensor before a run, so that an element that is not written shows.

        That is NaN, unless the stage reads a part of the tensor that it does not compute.
        """
        computed = {identity(value) for launch in stage.launches for value in launch.outputs}
        reads = (value for launch in stage.launches for value in launch.inputs)
        others = (value for value in reads if identity(value) not in computed)
        partly = any(self._tensors.holder(value) == tensor for value in others)
        return _RANDOM.astype(spec.dtype) if partly and "float" in spec.dtype else _POISON

    def _run(
        self, stages: Sequence[CudaStage], role: str, blank: Mapping[object, np.ndarray]
    ) -> Mapping[object, Place]:
        """Run stages and return the places of what they have computed, by holder."""
        computed = self._tensors.computed(stages, role)
        for key, place in computed.items():
            self._handles.fill(place.memory, blank.get(key, _POISON))
        if stages:
            self._handles.run([self._tensors.calls(stage, computed=computed) for stage in stages])
        return computed

    def _compare(
        self, program: StageProgram, found: Place, expected: Place, spec: TensorSpec
    ) -> None:
        result, reference = (
            np.frombuffer(self._handles.read(place.memory, spec.num_bytes), spec.dtype)
            for place in (found, expected)
        )
        error = relative_error(result, reference)
        if not error <= self._tolerance:
            names = ", ".join(kernel.variant or kernel.name for kernel in program.kernels)
            raise KernelFault(
                f"{names} computed something else than the operators (relative error {error:.2g})"
            )


def alone(implementation: Implementation[CudaKernel]) -> CudaStage:
    """Return an operator as a stage of one launch, or of none if its result is in place."""
    launch = Launch(implementation.kernel, 0, implementation.inputs, implementation.outputs)
    launches = () if implementation.kernel.is_noop else (launch,)
    return CudaStage.of(Stage.single(implementation), launches)


def relative_error(result: np.ndarray, reference: np.ndarray) -> float:
    """Return the largest deviation, relative to the largest finite value of the reference.

    It is infinite where NaN, infinities or integers differ.
    """
    if not np.issubdtype(reference.dtype, np.integer) and reference.dtype != np.bool_:
        result, reference = result.astype("float64"), reference.astype("float64")
    else:
        return 0.0 if np.array_equal(result, reference) else float("inf")
    finite = np.isfinite(reference)
    if not np.array_equal(result[~finite], reference[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(result[finite]).all():
        return float("inf")
    scale = float(np.abs(reference[finite]).max(initial=0.0))
    error = float(np.abs(result[finite] - reference[finite]).max(initial=0.0))
    return error / scale if scale else (0.0 if error == 0.0 else float("inf"))
