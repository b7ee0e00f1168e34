# SPDX-License-Identifier: Apache-2.0
"""The operations of an epilogue's steps, compiled on their own, and how far they are off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from support.networks import NATIVE
from tvm_ios.backend.cpu.code.functions import build_functions
from tvm_ios.backend.cpu.isa.epilogue import apply_epilogue
from tvm_ios.ops.epilogue import Epilogue, Operand, Step


def program_of(name: str, arguments: int = 0, constants: Sequence[float] = ()) -> Epilogue:
    """One step: on the anchor, tensor arguments and constants."""
    operands = [Operand("value", 0), *(Operand("argument", i) for i in range(arguments))]
    operands += [Operand("constant", number) for number in constants]
    return Epilogue((Step(name, tuple(operands)),), ("full",) * arguments)


def compute(
    epilogue: Epilogue,
    lanes: int,
    x: np.ndarray,
    y: np.ndarray | None = None,
    target: tvm.target.Target = NATIVE,
) -> np.ndarray:
    """The program on arrays of as many elements, ``lanes`` at a time; ``y`` is its argument."""
    y = x if y is None else y
    assert x.size % lanes == 0
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("apply")
        buffers = [T.arg(n, T.buffer((x.size,), "float32", layout=None)) for n in ("x", "y", "z")]
        with T.sblock("root"):
            T.reads()
            T.writes()
            with T.serial(x.size // lanes) as i:
                index = i if lanes == 1 else T.Ramp(i * lanes, 1, lanes)
                anchor = T.Bind(buffers[0][index])
                value = apply_epilogue(epilogue, anchor, lambda _: buffers[1][index], lanes)
                T.buffer_store(buffers[2], value, [index])
    module = build_functions({"apply": builder.get()}, target).mod
    tensors = [tvm.runtime.tensor(a) for a in (x, y, np.full_like(x, np.nan))]
    module["apply"](*tensors)
    return tensors[2].numpy()


def units_off(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """By how many units in the last place of float32 numbers are off, where both are finite."""
    with np.errstate(over="ignore"):
        finite = np.isfinite(actual) & np.isfinite(expected.astype("float32"))
    actual, expected = actual[finite], expected[finite].astype("float64")
    _, exponents = np.frexp(expected)
    return np.abs(actual - expected) / np.ldexp(1.0, np.maximum(exponents - 24, -149))
