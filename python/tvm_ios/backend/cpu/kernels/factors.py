# SPDX-License-Identifier: Apache-2.0
"""What convolutions and matrix products multiply, in float32 or in reduced precision.

Reduced precision is bfloat16, whose products are added by twos (bf16 dot2), or bytes, whose
products are added by fours (int8 dot4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tvm.tirx.script import builder as T

from ..core import Core
from ..isa import bfloat16, int8
from ..isa.emit import Accumulators, splat, zeros
from ..isa.functions import lanes_in
from .taps import MultiplyAdd, float_multiply_add

Expr = Any

Factors = Literal["single", "pairs", "quads"]
"""What a step of a reduction multiplies: float32 of one channel, bfloat16 of two (dot2), or bytes
of four (dot4), of which the left ones are unsigned and the right ones signed."""


@dataclass(frozen=True)
class Multiplication:
    """How a core multiplies factors and adds their products up.

    Attributes
    ----------
    step : int
        The number of channels that a step multiplies.
    left, right : str
        The types of the tensors of both sides.
    multiply_add : callable
        Adds the products of a step to a sum.
    sums : str
        The type of a sum.
    together : callable
        Returns a buffer of a side as one of what a step multiplies, in a given shape.
    sources : frozenset of str
        The LLVM IR of the functions that ``multiply_add`` calls.
    """

    step: int
    left: str
    right: str
    multiply_add: MultiplyAdd
    sums: str
    together: Callable[[Any, Sequence[int]], Any]
    sources: frozenset[str] = frozenset()

    @staticmethod
    def of(factors: Factors, core: Core) -> Multiplication:
        """Return how a core multiplies factors; by other instructions if it has none for them."""
        lanes = core.lanes
        if factors == "pairs":
            dot = partial(bfloat16.dot, instruction_lanes=core.bf16_dot2_lanes)
            sources = bfloat16.dot_source(core.bf16_dot2, lanes)
            kind = bfloat16.STORED
            return Multiplication(2, kind, kind, dot, "float32", bfloat16.as_dot2, sources)
        if factors == "quads":
            dot = partial(int8.dot, instruction_lanes=core.int8_dot4_lanes)
            sources = int8.dot_source(core.int8_dot4, lanes)
            kinds = int8.STORED, int8.FACTORS
            return Multiplication(4, *kinds, dot, "int32", int8.as_dot4, sources)
        return Multiplication(
            1, "float32", "float32", float_multiply_add, "float32", lambda buffer, _: buffer
        )

    def accumulators(self, count: int, lanes: int) -> Accumulators:
        """Allocate ``count`` vectors of sums, which are zero."""
        zero = zeros(lanes) if self.sums == "float32" else splat(T.int32(0), lanes)
        return Accumulators(count, lanes, zero, self.sums)

    def result(self, total: Expr) -> Expr:
        """Return a sum as float32."""
        if self.sums == "float32":
            return total
        lanes = lanes_in(total)
        return T.cast(total, "float32" if lanes == 1 else f"float32x{lanes}")
