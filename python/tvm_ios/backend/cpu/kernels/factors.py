# SPDX-License-Identifier: Apache-2.0
"""What convolutions and matrix products multiply, in float32 or in reduced precision.

Reduced precision is bfloat16, whose products are added by twos (bf16 dot2), or bytes, whose
products are added by fours (int8 dot4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from tvm.tirx.script import builder as T

from ..core import Core
from ..isa import bfloat16, dot4
from ..isa.emit import Accumulators, splat, zeros
from ..isa.functions import lanes_in
from ..isa.int8 import STORED
from .taps import MultiplyAdd, float_multiply_add

Expr = Any

Factors = Literal["single", "pairs", "quads", "small quads"]
"""What a step of a reduction multiplies: float32 of one channel, bfloat16 of two (dot2), or bytes
of four (dot4), of which the left ones are unsigned and the right ones signed. Right ones that are
:func:`~..isa.dot4.small` may be multiplied by faster instructions."""


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
    words : int
        The elements of a vector of the right side, as ``together`` returns it, of each lane.
    whole : bool
        Whether ``multiply_add`` is one of whole vectors only.
    offset : int
        What it subtracts from elements of the left side.
    spare : int
        The registers that it needs besides those of its operands.
    split : float
        The time, in multiply-adds, for which it splits an element of the left side before.
    pack : callable
        Returns vectors of what a step multiplies, ``[..., lanes, step]``, as the right side.
    """

    step: int
    left: str
    right: str
    multiply_add: MultiplyAdd
    sums: str
    together: Callable[[Any, Sequence[int]], Any]
    sources: frozenset[str] = frozenset()
    words: int = 1
    whole: bool = False
    offset: int = 0
    spare: int = 0
    split: float = 0.0
    pack: Callable[[np.ndarray], np.ndarray] = lambda quads: quads

    @staticmethod
    def of(factors: Factors, core: Core) -> Multiplication:
        """Return how a core multiplies factors; by other instructions if it has none for them."""
        lanes = core.lanes
        if factors == "pairs":
            dot = partial(bfloat16.dot, instruction_lanes=core.bf16_dot2_lanes)
            sources = bfloat16.dot_source(core.bf16_dot2, lanes)
            kind = bfloat16.STORED
            return Multiplication(2, kind, kind, dot, "float32", bfloat16.as_dot2, sources)
        if factors != "single":
            return _of_quads(dot4_of(factors, core))
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


def dot4_of(factors: Factors, core: Core) -> dot4.Dot4 | None:
    """Return the instructions by which a core multiplies quads; None if it has none."""
    found = core.int8_dot4
    return found.small or found if found and factors == "small quads" else found


def _of_quads(instructions: dot4.Dot4 | None) -> Multiplication:
    """Return how quads are multiplied."""
    plain = Multiplication(
        step=4,
        left=STORED,
        right=dot4.FACTOR_TYPES[1],
        multiply_add=partial(dot4.dot, instructions=instructions),
        sums="int32",
        together=dot4.as_dot4,
    )
    if instructions is None:
        return plain
    return replace(
        plain,
        right=dot4.FACTOR_TYPES[instructions.words],
        sources=frozenset((instructions.source(),)),
        words=instructions.words,
        whole=True,
        offset=instructions.offset,
        spare=instructions.spare,
        split=instructions.split,
        pack=instructions.factors,
    )
