# SPDX-License-Identifier: Apache-2.0
"""The passes of TVM that kernels for CPUs need, without the others.

TVM's own pipeline for scheduled functions also has passes for GPUs, for software pipelines and for
buffers that a schedule left larger than what is used of them. Half of the time to compile a kernel
goes into passes that find nothing to do, and into simplifying twice, where once, after loops are
unrolled, is enough. Three are left out for other reasons:

- Common subexpressions are found by LLVM, too. Where TVM gives them names, their values stay alive
  for longer than there are registers: a Winograd kernel without has less than half the
  instructions, and takes up to 6% less time.
- StorageRewrite would move every kernel's registers from the stack to the heap.
- CompactBufferAllocation runs only for functions that say that they need it.
"""

from __future__ import annotations

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.pipeline import finalize_device_passes, finalize_host_passes

PIPELINE = "tvm_ios_cpu_kernels"
LARGE_BUFFERS = "tvm_ios.large_buffers"
"""The attribute of functions whose buffers may be larger than what is used of them."""
SYMBOL = "tvm_ios.symbol"
"""The attribute of functions that C calls by this name, without TVM's calling convention."""


@tvm.transform.module_pass(opt_level=0)
def _compact(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Shrink the buffers of the functions that have large ones."""
    large = {
        name: function
        for name, function in mod.functions.items()
        if LARGE_BUFFERS in function.attrs
    }
    result = mod.clone()
    result.update(s_tir.transform.CompactBufferAllocation()(tvm.IRModule(large)))
    return result


@tvm.transform.module_pass(opt_level=0)
def _name(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Export functions under their symbols."""
    result = mod.clone()
    for variable, function in mod.functions.items():
        if SYMBOL in function.attrs:
            named = function.with_attr("global_symbol", function.attrs[SYMBOL])
            result.update_func(variable, named)
    return result


def _pipeline() -> tuple[tvm.transform.Pass, ...]:
    """Return the passes, and those of TVM that finish host and device functions."""
    passes = [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        _compact,
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.BF16ComputeLegalize(),
        tirx.transform.NarrowDataType(32),
        s_tir.transform.LoopPartition(),
        tirx.transform.VectorizeLoop(True),
        tirx.transform.UnrollLoop(),
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        s_tir.transform.RewriteUnsafeSelect(),
        tirx.transform.FP8ComputeLegalize(),
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
        tirx.transform.FP8StorageLegalize(),
        tirx.transform.BF16StorageLegalize(),
        _name,
    ]
    return tvm.transform.Sequential(passes), finalize_host_passes, finalize_device_passes


tirx.register_tir_pipeline(PIPELINE, _pipeline)
