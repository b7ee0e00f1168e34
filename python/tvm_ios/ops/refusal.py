# SPDX-License-Identifier: Apache-2.0
"""A function that ends a call with an error, where a network cannot go on."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .tir_function import tile_scope

FUNCTION = "refuse"
"""What the names of such functions begin with."""

_KIND = "ValueError"


def refusal(name: str, text: str) -> tirx.PrimFunc:
    """Build ``name(condition, nothing)``, which raises ValueError, whatever the condition is.

    A function of no tensor would be called as the network is compiled.

    Parameters
    ----------
    name : str
        Name of the function, unique in a library.
    text : str
        The message.

    Returns
    -------
    tvm.tirx.PrimFunc
        A scheduled function for a CPU, of a truth and an int64, both without axes.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        T.arg("condition", T.buffer((), "bool"))
        nothing = T.arg("nothing", T.buffer((), "int64"))
        with tile_scope():  # TVM requires a block
            source = tvm.ir.StringImm(_in_llvm(f"{name}_now", text))
            with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", source):
                T.evaluate(T.call_cpacked(f"{name}_now", T.int64(0)))
            T.buffer_store(nothing, T.int64(0), [])
    return builder.get()


def _in_llvm(name: str, text: str) -> str:
    """Return LLVM IR of a packed function that raises an error."""
    return "\n".join(
        [
            _constant(f"{name}_kind", _KIND),
            _constant(f"{name}_text", text),
            "declare extern_weak void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)",
            f"define i32 @{name}(ptr %self, ptr %arguments, i32 %count, ptr %result) {{",
            f"  call void @TVMFFIErrorSetRaisedFromCStr(ptr @{name}_kind, ptr @{name}_text)",
            "  ret i32 -1",
            "}",
        ]
    )


def _constant(name: str, text: str) -> str:
    held = text.encode() + b"\0"
    escaped = "".join(f"\\{byte:02X}" for byte in held)
    return f'@{name} = private constant [{len(held)} x i8] c"{escaped}"'
