# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers as loops over their steps.

The products of all steps' inputs with weights are one matrix product, which is computed before.
What remains in a step is the product with the state, and functions of its elements. Rows of the
batch do not depend on each other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..sizes.size import AnyShape, AnySize, Size

Expr = Any
Cell = Literal["lstm", "gru", "rnn"]


_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


@dataclass(frozen=True)
class Operands:
    """The inputs of a layer by name; None for one that it does not have."""

    products: Any
    weights: Any
    scales: Any | None
    bias: Any | None
    peepholes: Any | None
    lengths: Any | None
    states: Sequence[Any]


@dataclass(frozen=True)
class Recurrence:
    """One direction of a recurrent layer, given the products of its inputs with weights.

    With the gates' parts ``x`` of those products and ``r`` of the state's, which includes the bias
    of the new state if the reset comes after the product, a step computes:

    - ``lstm``, gates i, f, g, o: ``c = F(x_f + r_f) c + F(x_i + r_i) G(x_g + r_g)``,
      ``h = F(x_o + r_o) H(c)``
    - ``gru``, gates r, z, n: ``n = G(x_n + F(x_r + r_r) r_n)``, ``h = n + F(x_z + r_z) (h - n)``
    - ``rnn``: ``h = F(x + r)``

    Attributes
    ----------
    cell : "lstm", "gru" or "rnn"
    activations : tuple of str
        ``F``, ``G``, ``H``, as far as the cell has them: names of
        :data:`~tvm_ios.ops.recurrent_step.ACTIVATIONS`.
    steps, batch : size
    hidden : int
    backwards : bool
        Whether the last step comes first.
    batch_first : bool
        Whether inputs and results are ``[batch, steps, ...]`` instead of ``[steps, batch, ...]``.
    reset_after : bool
        Of a ``gru``: whether the reset is applied to the state's product, not to the state.
    parameters : tuple of (float, float)
        The parameters of each activation, if there are any.
    clip : float or None
        The largest magnitude of what ``F`` and ``G`` read.
    coupled : bool
        Of an ``lstm``: whether the gate f is ``1 - i``.
    peepholes : bool
        Of an ``lstm``: whether the gates i and f also read the old ``c``, and o the new one.
    ragged : bool
        Whether each row of the batch has a length. Results of later steps are 0 and do not change
        the states; the states of a row without steps are 0.
    dtype : str
        "float32" or "float64".
    quantized : bool
        Of an ``lstm`` of float32: whether the weights are int8, with a scale for each column. Each
        row of the state is rounded to 8 bits before it is multiplied, as
        :func:`~tvm_ios.ops.dynamic_grid.grid_of` says.
    paired : bool
        Whether the layer of the other direction is one of the same network, and can run at the same
        time.
    """

    cell: Cell
    activations: tuple[str, ...]
    steps: AnySize
    batch: AnySize
    hidden: int
    backwards: bool = False
    batch_first: bool = False
    reset_after: bool = False
    parameters: tuple[tuple[float, float], ...] = ()
    clip: float | None = None
    coupled: bool = False
    peepholes: bool = False
    ragged: bool = False
    dtype: str = "float32"
    quantized: bool = False
    paired: bool = False

    @property
    def gates(self) -> int:
        """Parts of the weights."""
        return _GATES[self.cell]

    @property
    def states(self) -> int:
        """Tensors ``[batch, hidden]`` that a step hands on."""
        return 2 if self.cell == "lstm" else 1

    @property
    def inputs(self) -> tuple[AnyShape, ...]:
        """The shapes of the operands that the layer has.

        They are products, weights ``[hidden, gates * hidden]``, their scales if they are quantised,
        a bias of the new state if the reset comes after the product, the peepholes' weights in
        i, f, o, lengths and states.
        """
        columns = self.gates * self.hidden
        scales = ((columns,),) if self.quantized else ()
        bias = ((self.hidden,),) if self.reset_after else ()
        peepholes = ((3, self.hidden),) if self.peepholes else ()
        lengths = ((self.batch,),) if self.ragged else ()
        products, weights = self._of_steps(columns), (self.hidden, columns)
        return (products, weights, *scales, *bias, *peepholes, *lengths, *self._of_states)

    @property
    def input_types(self) -> tuple[str, ...]:
        """The types of the operands: that of the layer, but for quantised weights."""
        types = [self.dtype] * len(self.inputs)
        types[1] = "int8" if self.quantized else self.dtype
        return tuple(types)

    @property
    def outputs(self) -> tuple[AnyShape, ...]:
        """The shapes of all steps' ``h`` and of the last states."""
        return (self._of_steps(self.hidden), *self._of_states)

    @property
    def text(self) -> str:
        """A description, in which open sizes are 0."""
        steps, batch = (0 if isinstance(n, Size) else n for n in (self.steps, self.batch))
        return json.dumps(asdict(replace(self, steps=steps, batch=batch)))

    @classmethod
    def read(cls, text: str) -> Recurrence:
        """Return the layer of a :attr:`text`."""
        given = json.loads(text)
        parameters = tuple((float(alpha), float(beta)) for alpha, beta in given["parameters"])
        return cls(
            **{**given, "activations": tuple(given["activations"]), "parameters": parameters}
        )

    def operands(self, inputs: Sequence[Any]) -> Operands:
        """Return the layer's inputs, in the order of :attr:`inputs`, by name."""
        products, weights, *rest = inputs
        scales = rest.pop(0) if self.quantized else None
        bias = rest.pop(0) if self.reset_after else None
        peepholes = rest.pop(0) if self.peepholes else None
        lengths = rest.pop(0) if self.ragged else None
        return Operands(products, weights, scales, bias, peepholes, lengths, rest)

    @property
    def _of_states(self) -> tuple[AnyShape, ...]:
        return ((self.batch, self.hidden),) * self.states

    def _of_steps(self, width: int) -> AnyShape:
        first = (self.batch, self.steps) if self.batch_first else (self.steps, self.batch)
        return (*first, width)
