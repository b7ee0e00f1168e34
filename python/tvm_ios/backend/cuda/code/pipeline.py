# SPDX-License-Identifier: Apache-2.0
"""TVM's own pipeline for the rest of a module after a function was scheduled."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax

_CAPTURABLE = ("tvm_ios.runtime.", "tvm_ios_", "vm.builtin.")


def finish_pipeline(target: tvm.target.Target, *, graph: bool = True) -> tvm.transform.Pass:
    """Return TVM's own pipeline for the rest of a module after a function was scheduled.

    Parameters
    ----------
    target : tvm.target.Target
        The CUDA device and its host.
    graph : bool
        Whether to run the scheduled calls as one CUDA graph. A module that calls functions of the
        user is never captured: a graph would not call them again.

    Returns
    -------
    tvm.transform.Pass
        The pipeline.
    """
    default = relax.get_default_pipeline(target)

    @tvm.transform.module_pass(opt_level=0, name="tvm_ios.finish_cuda")
    def finish(mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        captured = graph and not _calls_of_the_user(mod)
        config = {**context.config, "relax.backend.use_cuda_graph": captured}
        with tvm.transform.PassContext(opt_level=context.opt_level, config=config):
            return default(mod)

    return finish


def _calls_of_the_user(mod: tvm.IRModule) -> bool:
    """Return whether functions of the user are called: neither this package's nor TVM's."""
    names: set[str] = set()
    visit = [(relax.ExternFunc, lambda function: names.add(str(function.global_symbol)))]
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, visit)
    return not all(name.startswith(_CAPTURABLE) for name in names)
