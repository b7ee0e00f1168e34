# SPDX-License-Identifier: Apache-2.0
"""The kinds of targets that there is a back end for; the only place that asks which one it is."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import tvm

from ..lowering.kernel import K
from ..lowering.stages import S
from ..target import parse, parse_any
from .base import A, AnyKind, Backend, TargetKind
from .cpu.kind import CpuKind
from .cuda.kind import CudaKind

if TYPE_CHECKING:
    from .cpu.backend import CpuBackend
    from .cpu.kernels.kernel import Kernel
    from .cpu.stage.build import CpuStageBuilder
    from .cpu.stage.stage import CpuStage
    from .cuda.backend import CudaBackend
    from .cuda.kernels.kernel import CudaKernel
    from .cuda.stage.build import CudaStageBuilder
    from .cuda.stage.stage import CudaStage

    # Where one of them does not fill the protocol, it is said here by what.

    def _cpu(backend: CpuBackend) -> Backend[Kernel, CpuStage, CpuStageBuilder]:
        return backend

    def _cuda(backend: CudaBackend) -> Backend[CudaKernel, CudaStage, CudaStageBuilder]:
        return backend


ENTRY_POINTS = "tvm_ios.backends"
"""The group of entry points by which other packages register back ends."""

_KINDS: dict[str, AnyKind] = {}


def register(kind: TargetKind[K, S, A]) -> None:
    """Add a back end, or replace the one of the same kind of target."""
    _KINDS[kind.name] = kind


def kind_of(target: str | tvm.target.Target) -> AnyKind:
    """Return the back end of a target.

    Raises
    ------
    TargetError
        When TVM does not know the target, or there is no back end for its kind.
    """
    if isinstance(target, str) and target in _KINDS:  # TVM warns where it must make a device up
        return _KINDS[target]
    if parse_any(target).kind.name not in _KINDS:
        _register_installed()
    return _KINDS[parse(target, tuple(_KINDS)).kind.name]


def _register_installed() -> None:
    """Call the functions by which installed packages register back ends."""
    for found in entry_points(group=ENTRY_POINTS):
        found.load()()


register(CpuKind())
register(CudaKind())
