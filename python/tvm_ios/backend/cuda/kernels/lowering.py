# SPDX-License-Identifier: Apache-2.0
"""TVM's lowering of CUDA functions in two halves, with room for changes in between.

The first half ends with the code of each thread of a launch, with barriers and exchanges within a
warp inserted: plain statements under the launch's extents. The second half splits them into host
and device code. The passes are TVM's own: each half runs TVM's pipeline and skips the passes of the
other half.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import tirx
from tvm.ir.instrument import PassInstrument

_LOWERED = "tvm_ios.lowered"
_SECOND_HALF = frozenset(
    {
        "s_tir.InferFragment",  # its annotations refer to variables, which copying replaces
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
    """Run the first half on scheduled functions; functions that have run through it stay unchanged.

    Parameters
    ----------
    functions : mapping of str to PrimFunc
        The functions, by the names under which a host calls them.
    target : tvm.target.Target
        The CUDA device and its host.

    Returns
    -------
    dict of str to PrimFunc
        The lowered functions.
    """
    named = {n: f.with_attr("global_symbol", n) for n, f in functions.items()}
    scheduled = {n: f for n, f in named.items() if _LOWERED not in f.attrs}
    if scheduled:
        mod = tirx.transform.BindTarget(target)(tvm.IRModule(scheduled))
        mod = _run(mod, target, _FirstHalf())
        # A device pass of TVM, run early because it reads the block's shape, which may change.
        mod = tirx.transform.LowerWarpMemory()(mod)
        named |= {n: mark_lowered(mod[n]) for n in scheduled}
    return named


def mark_lowered(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Mark ``function`` as lowered by the first half."""
    return function.with_attr(_LOWERED, True)


def divide_host_and_device(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Run the second half."""
    return _run(mod, target, _SecondHalf())


def _run(mod: tvm.IRModule, target: tvm.target.Target, half: PassInstrument) -> tvm.IRModule:
    pipeline = tirx.get_default_tir_pipeline(target)[0]
    outer = tvm.transform.PassContext.current()
    with tvm.transform.PassContext(
        opt_level=outer.opt_level, config=dict(outer.config), instruments=[half]
    ):
        return pipeline(mod)


class _FirstHalf(PassInstrument):
    """An instrument that skips the passes of the second half."""

    def should_run(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> bool:
        """Return whether a pass precedes the split into host and device code."""
        return info.name not in _SECOND_HALF


class _SecondHalf(PassInstrument):
    """An instrument that skips the passes of the first half."""

    def should_run(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> bool:
        """Return whether a pass belongs to the second half, or contains such passes."""
        return info.name in _SECOND_HALF | _CONTAINERS
