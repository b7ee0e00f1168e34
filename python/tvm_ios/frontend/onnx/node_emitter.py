# SPDX-License-Identifier: Apache-2.0
"""The emitter of what one node of an ONNX graph computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from ...sizes.ratio import SingleRatio
from ...sizes.size import AnySize, Size, hints_of, is_open
from ..bindings import Bindings
from ..emitter import Emitter, constant, constant_array, dtype_of, has_shape, is_constant

SMALL = 1 << 16
"""Elements of a constant that is computed at once; shapes and pads are smaller."""


class NodeEmitter(Emitter):
    """An emitter that knows the node's version and which of its outputs are used.

    Parameters
    ----------
    bindings : Bindings
    where : str
        The operator, as the subject of a sentence.
    opset : int
        The version of the operator's domain.
    wanted : sequence of bool
        Whether each output is used.
    """

    def __init__(self, bindings: Bindings, where: str, opset: int, wanted: Sequence[bool]) -> None:
        super().__init__(bindings, where)
        self.opset = opset
        self._wanted = wanted

    def wants(self, output: int) -> bool:
        """Return whether an output is used."""
        return output < len(self._wanted) and self._wanted[output]

    @property
    def num_outputs(self) -> int:
        return len(self._wanted)

    @property
    def builder(self) -> relax.BlockBuilder:
        """The builder that receives what is emitted, for functions of TIR."""
        return self._bindings.builder

    def array(self, x: relax.Expr, what: str) -> np.ndarray:
        """Return the value of a constant; of one that has open sizes, an array of objects.

        Raises
        ------
        ModelError
            If it is computed when the model runs; the message contains ``what``, and the inputs
            that it is computed from.
        """
        value = self.known(x)
        if value is None:
            raise self.error(f"computes {what}{self.while_running(x)}.")
        return value

    def number(self, x: relax.Expr, what: str) -> Any:
        """Return the value of a constant with one element, which may be an open size."""
        value = self.array(x, what)
        if value.size != 1:
            raise self.error(f"needs {what} as one number, but is given {value.size}.")
        number = value.reshape(-1)[0]
        return number.item() if isinstance(number, np.generic) else number

    def known(self, x: relax.Expr) -> np.ndarray | None:
        """Return the value of a constant, or numbers some of which are open sizes; else None."""
        value = constant_array(x)
        return self._bindings.sizes_in(x) if value is None else value

    def sizes(
        self, sizes: AnySize | Sequence[AnySize] | np.ndarray, dtype: str = "int64"
    ) -> relax.Expr:
        """Return numbers as a tensor; it is a constant if no size is open."""
        numbers = np.array(sizes, object)
        if any(isinstance(number, Size | SingleRatio) for number in numbers.reshape(-1)):
            return self._bindings.add_sizes(numbers, dtype, self.where)
        return constant(numbers.astype(dtype))

    def while_running(self, x: relax.Expr) -> str:
        """Return the end of a sentence on what is not known before the model runs, with advice."""
        names = [repr(name) for name in self._bindings.inputs_of(x)]
        if not names:
            return " while it runs; export the model with constant ones"
        several = len(names) > 1
        inputs = f"inputs {_listed(names)}" if several else f"input {names[0]}"
        wanted = "make them initializers" if several else "make it an initializer"
        return f" from the {inputs} while it runs; {wanted}, or export the model with constant ones"

    def reject_truths(self, x: relax.Expr) -> None:
        """Raise a ModelError if elements that are added, or multiplied, are truths."""
        if dtype_of(x) == "bool":
            raise self.error("computes with truths, which is not supported; cast them to numbers.")

    def integers(self, x: relax.Expr, what: str) -> list[AnySize]:
        """Return the numbers of a constant list, or of one of sizes."""
        numbers = self.array(x, what).reshape(-1)
        return [n if is_open([n]) else int(n) for n in numbers]

    def axes(self, axes: Sequence[int], ndim: int) -> list[int]:
        """Return axes as non-negative numbers, each once."""
        found = [self.axis(axis, ndim) for axis in axes]
        if len(set(found)) != len(found):
            raise self.error(f"has the axes {list(axes)}, of which two are the same.")
        return found

    def product(self, a: relax.Expr, b: relax.Expr) -> relax.Expr:
        """Return the product; that of constants at once, rounded as NumPy does."""
        if is_constant(a) and is_constant(b):
            return constant(self.array(a, "a factor") * self.array(b, "a factor"))
        return self(relax.op.multiply(a, b))

    def difference(self, a: relax.Expr, b: relax.Expr) -> relax.Expr:
        """Return the difference; that of constants at once, rounded as NumPy does."""
        if is_constant(a) and is_constant(b):
            return constant(self.array(a, "a minuend") - self.array(b, "a subtrahend"))
        return self(relax.op.subtract(a, b))

    def quotient(self, a: relax.Expr, b: relax.Expr) -> relax.Expr:
        """Return the quotient; that of constants at once, rounded as NumPy does."""
        if is_constant(a) and is_constant(b):
            return constant(np.divide(self.array(a, "a dividend"), self.array(b, "a divisor")))
        return self(relax.op.divide(a, b))

    def filled(self, shape: Sequence[AnySize], value: float, dtype: str) -> relax.Expr:
        """Return a tensor of equal elements; a small one is a constant."""
        if not is_open(shape) and math.prod(hints_of(shape)) <= SMALL:
            return self.full(shape, value, dtype)
        return self(relax.op.full(tuple(shape), relax.const(value, dtype), dtype))

    def broadcast(self, x: relax.Expr, shape: Sequence[AnySize]) -> relax.Expr:
        """Broadcast a tensor; the result of a constant is one if it is small."""
        if has_shape(x, shape):
            return x
        if is_constant(x) and not is_open(shape) and math.prod(hints_of(shape)) <= SMALL:
            self.allocate(shape, dtype_of(x))
            return constant(np.broadcast_to(self.array(x, "what it repeats"), shape))
        return self(relax.op.broadcast_to(x, tuple(shape)))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
