# SPDX-License-Identifier: Apache-2.0
"""TVM's threads, as a network asks for them when it is run."""

from __future__ import annotations

import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from tvm_ios_runtime.threads import DEFAULTS, SHARE_ALL_CORES


def defaults_function(name: str) -> tirx.PrimFunc:
    """A public function that sets in the environment what the user has not.

    TVM looks there when the first pool of a process is made. With ``tvm_ios_runtime`` it is set
    already; in a program that has apache-tvm alone, or in C++, the library sees to it.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        for variable, value in DEFAULTS.items():
            keep = tirx.const(0, "int32")
            T.evaluate(T.call_extern("int32", "setenv", variable, value, keep))
    return builder.get()


def use_workers(workers: int) -> relax.Expr:
    """Have TVM's thread pool, which takes half the cores by itself, use ``workers`` threads.

    The call comes before the first parallel launch of a thread, which creates that thread's pool.
    TVM asks for names of cores and counts them; with the defaults it binds nothing to them.
    """
    cores = relax.Tuple([tvm.ir.StringImm(str(i)) for i in range(workers)])
    arguments = [relax.prim_value(SHARE_ALL_CORES), relax.prim_value(workers), cores]
    return _call("runtime.config_threadpool", arguments)


def set_defaults(name: str) -> relax.Expr:
    """Call the function of :func:`defaults_function`."""
    return _call(name, [])


def _call(name: str, arguments: list[relax.Expr]) -> relax.Expr:
    return relax.Call(relax.ExternFunc(name), arguments, None, [relax.TupleType([])])
