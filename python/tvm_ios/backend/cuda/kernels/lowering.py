# SPDX-License-Identifier: Apache-2.0
"""TVM's lowering of CUDA functions in two halves, so that something can be done in between.

The first half ends with what each thread of a launch does, barriers and exchanges within a warp
decided: plain statements under the launch's extents. The second half divides that into host and
device code. Which passes there are is TVM's own affair: each half is TVM's pipeline with the other
half's passes left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import tirx
from tvm.ir.instrument import PassInstrument

_LOWERED = "tvm_ios.lowered"
_SECOND_HALF = frozenset(
    {
        "s_tir.InferFragment",  # its notes name variables, which are lost when code is copied
        "tirx.AnnotateEntryFunc",
        "tirx.SplitHostDevice",
        "tirx.MakePackedAPI",
        "tirx.FP8StorageLegalize",
        "tirx.BF16StorageLegalize",
    }
)
_CONTAINERS = frozenset({"sequential", "_pipeline"})


def lower_to_statements(
    functions: Mapping[str, tirx.PrimFunc], target: tvm.target.Target
) -> dict[str, tirx.PrimFunc]:
    """Scheduled functions after the first half; those that have it behind them stay as they are.

    Parameters
    ----------
    functions : mapping of str to PrimFunc
        By the names under which a host calls them.
    target : tvm.target.Target
        The CUDA device and its host.
    """
    named = {n: f.with_attr("global_symbol", n) for n, f in functions.items()}
    scheduled = {n: f for n, f in named.items() if _LOWERED not in f.attrs}
    if scheduled:
        mod = tirx.transform.BindTarget(target)(tvm.IRModule(scheduled))
        mod = _run(mod, target, _FirstHalf())
        # TVM's is a pass of device code. It reads the shape of the block, which does not stay.
        mod = tirx.transform.LowerWarpMemory()(mod)
        named |= {n: mark_lowered(mod[n]) for n in scheduled}
    return named


def mark_lowered(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """``function`` with a note that it has the first half behind it."""
    return function.with_attr(_LOWERED, True)


def divide_host_and_device(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The second half."""
    return _run(mod, target, _SecondHalf())


def _run(mod: tvm.IRModule, target: tvm.target.Target, half: PassInstrument) -> tvm.IRModule:
    pipeline = tirx.get_default_tir_pipeline(target)[0]
    outer = tvm.transform.PassContext.current()
    with tvm.transform.PassContext(
        opt_level=outer.opt_level, config=dict(outer.config), instruments=[half]
    ):
        return pipeline(mod)


class _FirstHalf(PassInstrument):
    """Leaves out the passes of the second half."""

    def should_run(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> bool:
        """Whether a pass comes before the division into host and device code."""
        return info.name not in _SECOND_HALF


class _SecondHalf(PassInstrument):
    """Leaves out the passes of the first half."""

    def should_run(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> bool:
        """Whether a pass divides into host and device code, or holds such passes."""
        return info.name in _SECOND_HALF | _CONTAINERS
