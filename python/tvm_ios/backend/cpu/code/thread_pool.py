# SPDX-License-Identifier: Apache-2.0
"""Configuration of TVM's thread pool by the network itself, when it runs."""

from __future__ import annotations

import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from tvm_ios_runtime.threads import DEFAULTS, SHARE_ALL_CORES

DEFAULTS_SUFFIX = "_thread_defaults"
"""The end of the names of functions that :func:`defaults_function` builds."""
_CONFIGURE = "runtime.config_threadpool"


def defaults_function(name: str) -> tirx.PrimFunc:
    """Build a public function that sets unset environment variables of TVM's thread pool.

    TVM reads them when a process creates its first pool. ``tvm_ios_runtime`` sets them on import.
    In a program that has apache-tvm alone, or in C++, the library does it by this function.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        for variable, value in DEFAULTS.items():
            keep = tirx.const(0, "int32")
            T.evaluate(T.call_extern("int32", "setenv", variable, value, keep))
    return builder.get()


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
    return _call(_CONFIGURE, arguments)


def set_defaults(name: str) -> relax.Expr:
    """Return a call of the function built by :func:`defaults_function`."""
    return _call(name, [])


def configures_threads(value: relax.Expr) -> bool:
    """Return whether an expression is a call that the functions above returned."""
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return False
    name = str(value.op.global_symbol)
    return name == _CONFIGURE or (name.endswith(DEFAULTS_SUFFIX) and not value.args)


def _call(name: str, arguments: list[relax.Expr]) -> relax.Expr:
    return relax.Call(relax.ExternFunc(name), arguments, None, [relax.TupleType([])])
