# SPDX-License-Identifier: Apache-2.0
"""All kernels that an operator's function may have."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.s_tir import dlight


@dataclass(frozen=True)
class ScheduledFunction:
    variant: str
    function: tirx.PrimFunc
    fusible: bool = True
    shareable: bool = True


def schedule(function: tirx.PrimFunc, target: tvm.target.Target, precision: str):
    rules = [
        dlight.gpu.Matmul(),
        dlight.gpu.GEMV(),
        dlight.gpu.Reduction(),
        dlight.gpu.GeneralReduction(),
        dlight.gpu.Transpose(),
        dlight.gpu.Fallback(),
    ]
    with target:
        mod = tvm.tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": function}))
        mod = dlight.ApplyDefaultSchedule(*rules)(mod)
    return (ScheduledFunction("dlight", mod["main"]),)
