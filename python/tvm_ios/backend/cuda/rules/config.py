# SPDX-License-Identifier: Apache-2.0
"""The lowering config of CUDA devices, and the graphs that are lowered by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import tvm
from tvm import relax

from ....lowering.implementation import LoweredGraph
from ....schedule.options import Precision
from ..kernels.kernel import CudaKernel
from ..limits import Limits


@dataclass(frozen=True)
class CudaLoweringConfig:
    """The lowering config: everything but the operators that the choice of kernels depends on.

    Attributes
    ----------
    target : tvm.target.Target
    precision : str
        Type of the factors of convolutions and products, see :class:`tvm_ios.options.Options`.
    limits : Limits
        Of the device.
    cudnn : int or None
        The device whose cuDNN may compute convolutions; None disables cuDNN.
    """

    target: tvm.target.Target
    precision: Precision
    limits: Limits
    cudnn: int | None = None


@dataclass(frozen=True)
class CudaLoweredGraph(LoweredGraph[CudaKernel]):
    """A graph with the kernels of a CUDA device.

    Attributes
    ----------
    layouts : mapping of relax.Var to str
        Relax's names of layouts.
    config : CudaLoweringConfig
    """

    layouts: Mapping[relax.Var, str] = field(default_factory=dict)
    config: CudaLoweringConfig = field(kw_only=True)
