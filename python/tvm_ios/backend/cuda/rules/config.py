# SPDX-License-Identifier: Apache-2.0
"""The lowering config of CUDA devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from ....schedule.options import Precision


@dataclass(frozen=True)
class CudaLoweringConfig:
    """The lowering config: everything but the operators that the choice of kernels depends on.

    Attributes
    ----------
    target : tvm.target.Target
    precision : str
        Type of the factors of convolutions and products, see :class:`tvm_ios.options.Options`.
    multiprocessors : int
    l2_bytes : int
        Bytes of the device's L2 cache.
    cudnn : int or None
        The device whose cuDNN may compute convolutions; None disables cuDNN.
    database : tvm.s_tir.meta_schedule.database.Database or None
        Tuned kernels; they are measured with the others.
    """

    target: tvm.target.Target
    precision: Precision
    multiprocessors: int
    l2_bytes: int
    cudnn: int | None = None
    database: Any | None = None
