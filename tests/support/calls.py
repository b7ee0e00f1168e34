# SPDX-License-Identifier: Apache-2.0
"""A module that calls what it brings along."""

from __future__ import annotations

from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

IMAGE = (1, 20, 6, 6)


@I.ir_module
class Mixed:
    """A TIR function of the user's, a private function, an extern one, a branch, and effects."""

    @T.prim_func(s_tir=True)
    def double(
        x: T.Buffer((T.int64(1), T.int64(20), T.int64(6), T.int64(6)), "float32"),
        y: T.Buffer((T.int64(1), T.int64(20), T.int64(6), T.int64(6)), "float32"),
    ):
        for i, j, k in T.grid(T.int64(20), T.int64(6), T.int64(6)):
            with T.sblock("y"):
                a, b, c = T.axis.remap("SSS", [i, j, k])
                y[0, a, b, c] = x[0, a, b, c] * T.float32(2)

    @R.function(private=True)
    def inner(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y

    @R.function
    def tir(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        cls = Mixed
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            b = R.call_tir(cls.double, (a,), out_ty=R.Tensor((1, 20, 6, 6), "float32"))
            c = R.nn.max_pool2d(b, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(c)
        return c

    @R.function
    def function(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        cls = Mixed
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            b = cls.inner(a)
            c = R.add(b, a)
            R.output(c)
        return c

    @R.function
    def extern(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            b = R.call_pure_packed(
                "tests_of_tvm_ios.half", a, ty_args=(R.Tensor((1, 20, 6, 6), "float32"),)
            )
            c = R.call_dps_packed(
                "tests_of_tvm_ios.negate", (b,), out_ty=R.Tensor((1, 20, 6, 6), "float32")
            )
            d = R.nn.max_pool2d(c, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(d)
        return d

    @R.function
    def branch(x: R.Tensor((1, 20, 6, 6), "float32"), condition: R.Tensor((), "bool")) -> R.Tensor(
        (1, 20, 6, 6), "float32"
    ):
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(a)
        if condition:  # noqa: SIM108  (TVMScript has no other form)
            b = R.exp(a)
        else:
            b = R.negative(a)
        with R.dataflow():
            c = R.nn.max_pool2d(b, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(c)
        return c

    @R.function(pure=False)
    def effects(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(a)
        _ = R.call_packed("tests_of_tvm_ios.note", a, ty_args=(R.Tuple,))
        b = R.nn.relu(a)
        _1 = R.call_packed("tests_of_tvm_ios.note", x, ty_args=(R.Tuple,))
        with R.dataflow():
            c = R.nn.avg_pool2d(b, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(c)
        _2 = R.call_packed("tests_of_tvm_ios.note", c, ty_args=(R.Tuple,))
        return c
