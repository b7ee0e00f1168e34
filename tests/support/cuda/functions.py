# SPDX-License-Identifier: Apache-2.0
"""Operators as TIR functions, as they come to the rules for CUDA, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from support.networks import relax_module
from tvm_ios.backend.cuda.kernels.gemm_block import shared_bytes
from tvm_ios.backend.cuda.kernels.match_gemm import GemmMatch
from tvm_ios.backend.cuda.kernels.tile import Tile, blocks_of
from tvm_ios.backend.cuda.kernels.tiles import layouts_of

Body = Callable[..., relax.Expr]


def function_of(body: Body, *shapes: Sequence[int], dtype: str = "float32") -> tirx.PrimFunc:
    """A Relax expression, legalised and fused into one function."""
    mod = relax_module(body, *(relax.TensorType(shape, dtype) for shape in shapes))
    (main,) = mod.functions.values()
    builder = relax.BlockBuilder()
    inner = builder.add_func(main.with_attr("Primitive", True), "op")
    parameters = [relax.Var(p.name, p.ty) for p in main.params]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(inner, parameters))
        builder.emit_func_output(result)
    passes = [
        relax.transform.CanonicalizeBindings(),
        relax.transform.LegalizeOps(),
        relax.transform.FuseTIR(),
    ]
    lowered = tvm.transform.Sequential(passes)(builder.get())
    (function,) = (f for f in lowered.functions.values() if isinstance(f, tirx.PrimFunc))
    return function


def conv_relu(**attributes: Any) -> Body:
    """A convolution, a bias and a ReLU, channels last."""

    def body(emit: Any, x: relax.Var, weights: relax.Var, bias: relax.Var) -> relax.Expr:
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
        y = emit(relax.op.nn.conv2d(x, weights, **layouts, **attributes))
        return emit(relax.op.nn.relu(emit(relax.op.add(y, bias))))

    return body


def normal(function: tirx.PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """Numbers for all parameters of a function but the last, its result."""
    random = np.random.default_rng(seed)
    shapes = [[int(extent) for extent in p.shape] for p in function.params[:-1]]
    types = [str(p.dtype) for p in function.params[:-1]]
    return [
        random.standard_normal(shape).astype(dtype)
        for shape, dtype in zip(shapes, types, strict=True)
    ]


def on_the_cpu(function: tirx.PrimFunc, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """What TVM's own lowering for the CPU computes."""
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    result = function.params[-1]
    output = np.empty([int(extent) for extent in result.shape], str(result.dtype))
    tensors = [tvm.runtime.tensor(array) for array in (*inputs, output)]
    tvm.compile(mod, target="llvm")["main"](*tensors)
    return tensors[-1].numpy()


def rounded_to_tf32(array: np.ndarray) -> np.ndarray:
    """The nearest numbers of 11 bits, ties away from zero."""
    return ((array.view("uint32") + 0x1000) & 0xFFFFE000).view("float32")


def tile_of(
    match: GemmMatch,
    factors: str,
    sizes: Sequence[int],
    part: tuple[int, int],
    lanes: int,
    teams: int,
    slots: int,
) -> Tile:
    """A tile of some rows, columns and depth, whose parts are computed by ``lanes`` threads."""
    rows, columns, depth = sizes
    layouts = layouts_of(factors, rows, columns, depth)
    threads = lanes * teams * (rows // part[0]) * (columns // part[1])
    shared = shared_bytes((rows, columns), teams, slots, *layouts)
    blocks = blocks_of(match, rows, columns)
    return Tile(factors, rows, columns, depth, *part, teams, slots, threads, shared, blocks)
