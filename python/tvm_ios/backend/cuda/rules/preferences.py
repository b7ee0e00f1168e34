# SPDX-License-Identifier: Apache-2.0
"""What the choice of kernels for a CUDA device depends on besides the operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from ....schedule.options import Precision


@dataclass(frozen=True)
class CudaPreferences:
    """What the choice of kernels depends on besides the operators.

    Attributes
    ----------
    target : tvm.target.Target
    precision : str
        What convolutions and products multiply, see :class:`tvm_ios.options.Options`.
    multiprocessors : int
    l2_bytes : int
        The device's second cache.
    cudnn : int or None
        The device whose cuDNN may compute convolutions; None for none.
    database : tvm.s_tir.meta_schedule.database.Database or None
        Kernels that were tuned, which are measured, too.
    """

    target: tvm.target.Target
    precision: Precision
    multiprocessors: int
    l2_bytes: int
    cudnn: int | None = None
    database: Any | None = None
