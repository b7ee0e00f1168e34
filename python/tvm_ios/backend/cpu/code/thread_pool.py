# SPDX-License-Identifier: Apache-2.0
"""Configuration of TVM's thread pool by the library itself, when it is loaded and when it runs."""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_ios_runtime.threads import DEFAULTS, SHARE_ALL_CORES

_CONFIGURE = "runtime.config_threadpool"


def defaults_source() -> str:
    """Return LLVM IR that sets unset environment variables of TVM's pool as a library is loaded.

    TVM reads them when a process creates its first pool. ``tvm_ios_runtime`` sets them on import.
    In a program that has apache-tvm alone, or in C++, the library does it. It does so only once, as
    another thread may be reading the environment, which is not safe.
    """
    lines, calls = [], []
    for number, texts in enumerate(DEFAULTS.items()):
        names = [f"@tvm_ios_default{number}_{part}" for part in ("name", "value")]
        for name, text in zip(names, texts, strict=True):
            kind = f"[{len(text) + 1} x i8]"
            lines.append(f'{name} = private constant {kind} c"{text}\\00"')
        calls.append(f"  call i32 @setenv(ptr {names[0]}, ptr {names[1]}, i32 0)")
    return "\n".join(
        [
            *lines,
            "declare i32 @setenv(ptr, ptr, i32)",
            "define internal void @tvm_ios_set_defaults() {",
            *calls,
            "  ret void",
            "}",
            "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
            "[{ i32, ptr, ptr } { i32 65535, ptr @tvm_ios_set_defaults, ptr null }]",
        ]
    )


def set_num_threads(workers: int) -> relax.Expr:
    """Return a call that makes TVM's thread pool use ``workers`` threads.

    By default TVM's pool uses half of the cores. The call comes before the first parallel launch of
    a thread, which creates that thread's pool. It is what
    :func:`tvm_ios_runtime.threads.set_num_threads` does, but the cores of the machine that runs the
    library are not known. TVM counts their names; with the defaults set, it does not bind threads
    to them.
    """
    cores = relax.Tuple([tvm.ir.StringImm(str(i)) for i in range(workers)])
    arguments = [relax.prim_value(SHARE_ALL_CORES), relax.prim_value(workers), cores]
    return relax.Call(relax.ExternFunc(_CONFIGURE), arguments, None, [relax.TupleType([])])


def configures_threads(value: relax.Expr) -> bool:
    """Return whether an expression is a call that :func:`set_num_threads` returned."""
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return False
    return str(value.op.global_symbol) == _CONFIGURE
