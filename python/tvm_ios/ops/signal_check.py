# SPDX-License-Identifier: Apache-2.0
"""A function that ends a call when the process was sent a signal.

A loop may run for long, or for ever. Python notices Ctrl-C once it runs again, or where TVM's
runtime is asked, as this function does.
"""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .tir_function import tile_scope

FUNCTION = "check_signals"
"""What the names of such functions begin with."""

_KIND = "EnvErrorAlreadySet"  # TVM's name for an error that Python has


def signal_check(name: str) -> tirx.PrimFunc:
    """Build ``name(number, same)``, which copies an integer, and fails if there is a signal.

    Parameters
    ----------
    name : str
        Name of the function, unique in a library.

    Returns
    -------
    tvm.tirx.PrimFunc
        A scheduled function for a CPU. Both tensors are of int64, and have no axes.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        number = T.arg("number", T.buffer((), "int64"))
        same = T.arg("same", T.buffer((), "int64"))
        with tile_scope():  # TVM requires a block
            source = tvm.ir.StringImm(_in_llvm(f"{name}_ask"))
            with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", source):
                T.evaluate(T.call_cpacked(f"{name}_ask", number[()]))
            T.buffer_store(same, number[()], [])
    return builder.get()


def _in_llvm(name: str) -> str:
    """Return LLVM IR of a packed function that fails if TVM's runtime has noticed a signal."""
    return "\n".join(
        [
            f'@{name}_kind = private constant [{len(_KIND) + 1} x i8] c"{_KIND}\\00"',
            f'@{name}_text = private constant [1 x i8] c"\\00"',
            "declare extern_weak i32 @TVMFFIEnvCheckSignals()",
            "declare extern_weak void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)",
            f"define i32 @{name}(ptr %self, ptr %arguments, i32 %count, ptr %result) {{",
            "  %is_known = icmp ne ptr @TVMFFIEnvCheckSignals, null",
            "  br i1 %is_known, label %ask, label %go_on",
            "ask:",
            "  %signals = call i32 @TVMFFIEnvCheckSignals()",
            "  %is_quiet = icmp eq i32 %signals, 0",
            "  br i1 %is_quiet, label %go_on, label %stop",
            "go_on:",
            "  ret i32 0",
            "stop:",
            f"  call void @TVMFFIErrorSetRaisedFromCStr(ptr @{name}_kind, ptr @{name}_text)",
            "  ret i32 -1",
            "}",
        ]
    )
