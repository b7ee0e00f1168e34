# SPDX-License-Identifier: Apache-2.0
"""A TIR function that finds the places of what is true, which nobody knows the number of before."""

from __future__ import annotations

import zlib

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..sizes.size import AnySize, size_of
from .tir_function import tile_scope


def compacted(builder: relax.BlockBuilder, truths: relax.Expr) -> tuple[relax.Var, relax.Var]:
    """Emit the places of the truths of a list, one behind the other, and their number.

    Parameters
    ----------
    builder : relax.BlockBuilder
    truths : relax.Expr
        bool ``[n]``, n > 0.

    Returns
    -------
    relax.Var, relax.Var
        int64 ``[n]``, with 0 behind the places, and int64 ``[1]``.
    """
    (length,) = map(size_of, truths.ty.shape.values)
    name = f"compact_{zlib.crc32(str(length).encode()):08x}"
    function = builder.add_func(compaction(length, name), name)
    types = [relax.TensorType((length,), "int64"), relax.TensorType((1,), "int64")]
    both = builder.emit(relax.call_tir(function, [truths], types))
    places, count = (builder.emit(relax.TupleGetItem(both, i)) for i in range(2))
    return places, count


def compaction(size: AnySize, name: str) -> tirx.PrimFunc:
    """Build a function of a list of truths, their places and their number.

    It stores each place where the next one belongs, so that the loop has no branch.
    """
    length = size if isinstance(size, int) else tirx.Var("length", "int64")
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        truths = T.arg("truths", T.buffer((length,), "bool"))
        places = T.arg("places", T.buffer((length,), "int64"))
        count = T.arg("count", T.buffer((1,), "int64"))
        with tile_scope():
            T.buffer_store(count, T.int64(0), [0])
            with T.serial(length) as i:
                T.buffer_store(places, T.Cast("int64", i), [count[0]])
                T.buffer_store(count, count[0] + T.Cast("int64", truths[i]), [0])
            with T.serial(length) as i, T.If(T.Cast("int64", i) >= count[0]), T.Then():
                T.buffer_store(places, T.int64(0), [i])
    return builder.get()
