# SPDX-License-Identifier: Apache-2.0
"""Single GPU kernels: runs each kernel that the operators of a network may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy)
import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from ..backend.cuda.code.network import RUN_STAGE
from ..backend.cuda.kernels.kernel import CudaKernel
from ..backend.cuda.measure.builder import CudaKernelBuilder
from ..backend.cuda.measure.runner import CudaStageRunner
from ..backend.cuda.rules.config import CudaLoweredGraph, CudaLoweringConfig
from ..backend.cuda.rules.implement import CudaNetwork, implement
from ..backend.cuda.stage.program import StageProgram
from ..backend.cuda.stage.stage import CudaStage
from ..backend.cuda.target import device_for
from ..graph.extract import extract
from ..lowering.implementation import Implementation
from ..lowering.value import Value
from ..measure.transport.session import LocalSession
from ..ops.tensor import TensorSpec
from ..rewrite.prepare import prepare
from ..schedule.options import Precision
from ..support.errors import device_errors
from .cases import Case

_TO_MEMORY, _TO_RELAX = (0, 2, 3, 1), (0, 3, 1, 2)  # axes of feature maps; kernels use NHWC

_SAMPLES = 20
PRODUCT = "gemm_"
"""What the variants of kernels of matrix products begin with."""


@dataclass(frozen=True)
class KernelNetwork:
    """The operators of a case, with every kernel that each of them may use."""

    case: Case
    parameters: Sequence[relax.Var]
    network: CudaNetwork

    @classmethod
    def of(
        cls,
        case: Case,
        target: tvm.target.Target,
        device_id: int = 0,
        precision: Precision = "fp32",
        cudnn: bool = False,
    ) -> KernelNetwork:
        """Find the kernels of a network.

        Parameters
        ----------
        case : Case
            The network.
        target : tvm.target.Target
            The target, of kind ``cuda``.
        device_id : int
            The GPU.
        precision : str
            The data type of factors.
        cudnn : bool
            Whether to include cuDNN's kernels.
        """
        prepared = prepare(case.module())
        device = device_for(target, device_id)
        config = CudaLoweringConfig(
            target,
            precision,
            device.limits,
            cudnn=device_id if cudnn else None,
        )
        return cls(case, prepared["main"].params, implement(extract(prepared), config))

    @property
    def lowered(self) -> CudaLoweredGraph:
        return self.network.lowered

    @property
    def products(self) -> int:
        """How many operators multiply factors in the network's precision."""
        return sum(any(_multiplies(i) for i in found) for found in self.network.candidates)

    @cached_property
    def variants(self) -> dict[str, tuple[Implementation[CudaKernel], ...]]:
        """The implementations of all operators, for one kernel of each family.

        The operator with the most kernels varies; the others use their default.
        """
        candidates = self.network.candidates
        assert all(candidates), "every operator of a case has a kernel"
        varied = max(range(len(candidates)), key=lambda i: len(candidates[i]))
        chosen: dict[str, Implementation[CudaKernel]] = {}
        for implementation in candidates[varied]:
            chosen.setdefault(_family(implementation.kernel.variant), implementation)
        return {
            found.kernel.variant: tuple(
                found if i == varied else others[0] for i, others in enumerate(candidates)
            )
            for found in chosen.values()
        }

    def in_memory(self, value: relax.Var, array: np.ndarray) -> np.ndarray:
        """Convert the array of ``value`` from Relax's layout to that of the kernels."""
        last = value in self.lowered.layouts
        return np.ascontiguousarray(array.transpose(_TO_MEMORY)) if last else array

    def in_relax(self, value: relax.Var, array: np.ndarray) -> np.ndarray:
        """Convert the array of ``value`` from the kernels' layout to that of Relax."""
        return array.transpose(_TO_RELAX) if value in self.lowered.layouts else array


class KernelRunner:
    """A runner of single kernels on a device, without a CUDA graph.

    Parameters
    ----------
    target : tvm.target.Target
        The target, of kind ``cuda``.
    device_id : int
        The GPU.
    """

    def __init__(self, target: tvm.target.Target, device_id: int) -> None:
        self._libraries, self._session = CudaKernelBuilder(target), LocalSession()
        self._device_id, self._device = device_id, tvm.cuda(device_id)

    def compile(self, networks: Iterable[KernelNetwork]) -> None:
        """Compile all kernels of networks together, on all cores."""
        self._libraries.compile(
            i.kernel
            for network in networks
            for implementations in network.variants.values()
            for i in implementations
        )

    def time(
        self, network: KernelNetwork, implementations: Sequence[Implementation[CudaKernel]]
    ) -> np.ndarray:
        """Return the seconds of runs of the last kernel, measured by events in a CUDA graph."""
        bench = CudaStageRunner(
            network.network, self._libraries, self._session, self._device_id, seed=0
        )
        return bench.time_alone(implementations[-1:], _SAMPLES).seconds[:, 0]

    def run(
        self,
        network: KernelNetwork,
        implementations: Sequence[Implementation[CudaKernel]],
        inputs: Sequence[np.ndarray],
    ) -> np.ndarray:
        """Run the kernels one after another, and return the network's result.

        Memory that no kernel wrote contains NaN.

        Parameters
        ----------
        network : KernelNetwork
            The network.
        implementations : sequence of Implementation
            The kernels, in execution order.
        inputs : sequence of numpy.ndarray
            The inputs, in Relax's layout.
        """
        with device_errors(self._device_id):
            values = self.upload(network, inputs)
            for implementation in implementations:
                self._launch(implementation, values)
            (result,) = implementations[-1].outputs
            return network.in_relax(result, values[result].numpy())

    def upload(
        self, network: KernelNetwork, inputs: Sequence[np.ndarray]
    ) -> dict[relax.Var, tvm.runtime.Tensor]:
        """Copy the parameters of a network to the device."""
        return {
            value: tvm.runtime.tensor(network.in_memory(value, array), self._device)
            for value, array in zip(network.parameters, inputs, strict=True)
        }

    def run_stage(self, stage: CudaStage, values: dict[relax.Var, tvm.runtime.Tensor]) -> None:
        """Run a stage on its streams as a compiled network does; add the results to ``values``."""
        program = StageProgram.of(stage, {})  # every value has a tensor of its own
        kernels = [self._function(kernel) for kernel in program.kernels]
        read = [self._tensor(value, values) for value in program.inputs]
        written = list(map(self._poisoned, program.written))
        run = tvm_ffi.get_global_func(RUN_STAGE)
        run(tvm_ffi.Shape(program.numbers), *kernels, *read, *written)
        values.update(zip(program.outputs, written, strict=False))  # scratch memory comes last

    def _launch(
        self,
        implementation: Implementation[CudaKernel],
        values: dict[relax.Var, tvm.runtime.Tensor],
    ) -> None:
        kernel = implementation.kernel
        read = [self._tensor(value, values) for value in implementation.inputs]
        written = list(map(self._poisoned, (*kernel.outputs, *kernel.scratch)))
        self._function(kernel)(*read, *written)
        values.update(zip(implementation.outputs, written, strict=False))

    def _function(self, kernel: CudaKernel) -> Callable[..., Any]:
        library = self._libraries.library(kernel)
        (name,) = library.names[kernel.key]
        return self._session.load(library)[name]

    def _tensor(
        self, value: Value, values: Mapping[relax.Var, tvm.runtime.Tensor]
    ) -> tvm.runtime.Tensor:
        if isinstance(value, relax.Var):
            return values[value]
        return tvm.runtime.tensor(np.ascontiguousarray(value), self._device)

    def _poisoned(self, spec: TensorSpec) -> tvm.runtime.Tensor:
        known = "float" in spec.dtype
        return tvm.runtime.tensor(
            np.full(spec.shape, np.nan if known else 1, spec.dtype), self._device
        )


def _multiplies(implementation: Implementation[CudaKernel]) -> bool:
    return implementation.kernel.variant.startswith(PRODUCT)


def _family(variant: str) -> str:
    """Return the part of a kernel variant's name that does not depend on sizes."""
    parts = variant.split("_")
    if variant.startswith(PRODUCT):
        _, factors, block, _ = parts
        return f"gemm_{factors}{'*' * ('*' in block)}{'/' * ('/' in block)}"
    return parts[0] if parts[0] == "window" else variant
