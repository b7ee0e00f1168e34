# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers as loops over their steps.

The products of all steps' inputs with weights are one matrix product, which is computed before.
What remains in a step is the product with the state, and functions of its elements. Rows of the
batch do not depend on each other.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .recurrent_step import Formulas
from .size import AnyShape, AnySize, Size, reread, written
from .tir_function import on_stack, tile_scope

Expr = Any
Cell = Literal["lstm", "gru", "rnn"]

FUNCTION = "recurrence"
"""What the names of TIR functions that compute layers begin with."""

_ATTRIBUTE = "tvm_ios.recurrence"  # of a TIR function: the layer that it computes
_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


@dataclass(frozen=True)
class Operands:
    """The inputs of a layer by name; None for one that it does not have."""

    products: Any
    weights: Any
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
        """The shapes of the operands that the layer has, all of its type.

        They are products, weights ``[hidden, gates * hidden]``, a bias of the new state if the
        reset comes after the product, the peepholes' weights in i, f, o, lengths and states.
        """
        bias = ((self.hidden,),) if self.reset_after else ()
        peepholes = ((3, self.hidden),) if self.peepholes else ()
        lengths = ((self.batch,),) if self.ragged else ()
        weights = (self.hidden, self.gates * self.hidden)
        products = self._of_steps(self.gates * self.hidden)
        return (products, weights, *bias, *peepholes, *lengths, *self._of_states)

    @property
    def outputs(self) -> tuple[AnyShape, ...]:
        """The shapes of all steps' ``h`` and of the last states."""
        return (self._of_steps(self.hidden), *self._of_states)

    @property
    def text(self) -> str:
        """A description, which :func:`layer_of` reads."""
        sizes = {name: getattr(self, name) for name in ("steps", "batch")}
        texts = {name: written(n) for name, n in sizes.items() if isinstance(n, Size)}
        known: dict[str, Any] = dict.fromkeys(texts, 1)
        return json.dumps({**asdict(replace(self, **known)), **texts})

    def operands(self, inputs: Sequence[Any]) -> Operands:
        """Return the layer's inputs, in the order of :attr:`inputs`, by name."""
        products, weights, *rest = inputs
        bias = rest.pop(0) if self.reset_after else None
        peepholes = rest.pop(0) if self.peepholes else None
        lengths = rest.pop(0) if self.ragged else None
        return Operands(products, weights, bias, peepholes, lengths, rest)

    @property
    def _of_states(self) -> tuple[AnyShape, ...]:
        return ((self.batch, self.hidden),) * self.states

    def _of_steps(self, width: int) -> AnyShape:
        first = (self.batch, self.steps) if self.batch_first else (self.steps, self.batch)
        return (*first, width)


def recurrence(
    builder: relax.BlockBuilder, layer: Recurrence, inputs: Sequence[relax.Expr]
) -> relax.Var:
    """Emit a layer, and return the tuple of its outputs.

    Parameters
    ----------
    builder : relax.BlockBuilder
    layer : Recurrence
    inputs : sequence of relax.Expr
        Tensors of the layer's type and of the shapes :attr:`Recurrence.inputs`.
    """
    name = f"{FUNCTION}_{zlib.crc32(repr(layer).encode()):08x}"
    function = builder.add_func(recurrence_function(layer, name), name)
    types = [relax.TensorType(shape, layer.dtype) for shape in layer.outputs]
    return builder.emit(relax.call_tir(function, list(inputs), types))


def recurrence_function(layer: Recurrence, name: str) -> tirx.PrimFunc:
    """Build ``name(*inputs, *outputs)``, which computes a layer on one thread, unit by unit.

    It says what the layer means, and is what TVM compiles by itself. Back ends have kernels.
    """
    text = layer.text
    for size in ("steps", "batch"):
        if isinstance(getattr(layer, size), Size):  # TVM finds it out from the shapes
            layer = replace(layer, **{size: tirx.Var(size, "int64")})
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr(
            {
                "tirx.is_scheduled": True,
                "tirx.noalias": True,
                _ATTRIBUTE: text,
            }
        )
        tensors = [
            T.arg(f"p{i}", T.buffer(shape, layer.dtype))
            for i, shape in enumerate((*layer.inputs, *layer.outputs))
        ]
        with tile_scope():  # TVM requires a block
            _Definition(layer, tensors).emit()
    return builder.get()


def recurrence_of(function: tirx.PrimFunc) -> Recurrence | None:
    """Return the layer that a TIR function computes; None for any other function."""
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    return None if text is None else layer_of(str(text))


def layer_of(text: str) -> Recurrence:
    """Return the layer of a :attr:`Recurrence.text`."""
    given = json.loads(text)
    for name in ("steps", "batch"):
        given[name] = reread(given[name]) if isinstance(given[name], str) else given[name]
    activations, parameters = tuple(given["activations"]), tuple(map(tuple, given["parameters"]))
    return Recurrence(**{**given, "activations": activations, "parameters": parameters})


class _Definition:
    """Emits the steps of a layer, one unit of one row of the batch after another."""

    def __init__(self, layer: Recurrence, tensors: Sequence[Any]) -> None:
        self._layer = layer
        inputs = len(layer.inputs)
        self._given = layer.operands(tensors[:inputs])
        self._results, *self._last = tensors[inputs:]
        # The states, the new state, and what a reset before the product needs for all units.
        self._states = [self._units() for _ in range(layer.states)]
        self._new, self._reset, self._update = (self._units() for _ in range(3))
        self._formulas = Formulas(layer, self._apply)

    def emit(self) -> None:
        """Emit all steps of all rows."""
        layer = self._layer
        with T.serial(layer.batch) as row:
            with T.serial(layer.hidden) as unit:
                for state, initial in zip(self._states, self._given.states, strict=True):
                    self._set(state, self._begin(row, initial[row, unit]), unit)
            with T.serial(layer.steps) as number:
                time = layer.steps - 1 - number if layer.backwards else number
                self._step(row, time)
            with T.serial(layer.hidden) as unit:
                for last, state in zip(self._last, self._states, strict=True):
                    self._set(last, state[unit], row, unit)

    def _begin(self, row: Expr, initial: Expr) -> Expr:
        """Return a state before the first step, which is 0 if the row has no steps."""
        lengths = self._given.lengths
        return initial if lengths is None else T.if_then_else(lengths[row] > 0, initial, 0)

    def _step(self, row: Expr, time: Expr) -> None:
        """Emit a step of a row; one beyond its length has the result 0."""
        place = (row, time) if self._layer.batch_first else (time, row)
        if self._given.lengths is None:
            self._advance(place)
            return
        with T.If(T.Cast(self._layer.dtype, time) < self._given.lengths[row]):
            with T.Then():
                self._advance(place)
            with T.Else(), T.serial(self._layer.hidden) as unit:
                self._set(self._results, tirx.const(0, self._layer.dtype), *place, unit)

    def _advance(self, place: tuple[Expr, Expr]) -> None:
        {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[self._layer.cell](place)
        with T.serial(self._layer.hidden) as unit:
            self._set(self._states[0], self._new[unit], unit)
            self._set(self._results, self._new[unit], *place, unit)

    def _lstm(self, place: tuple[Expr, Expr]) -> None:
        hidden, memory = self._states
        weights = self._given.peepholes
        with T.serial(self._layer.hidden) as unit:
            sums = [self._input(place, n, unit) + self._sum(hidden, n, unit) for n in range(4)]
            peepholes = None if weights is None else [weights[n, unit] for n in range(3)]
            new, kept = self._formulas.lstm(sums, peepholes, memory[unit])
            self._set(self._new, new, unit)
            self._set(memory, kept, unit)

    def _gru(self, place: tuple[Expr, Expr]) -> None:
        (hidden,) = self._states
        with T.serial(self._layer.hidden) as unit:
            for n, gate in enumerate((self._reset, self._update)):
                total = self._input(place, n, unit) + self._sum(hidden, n, unit)
                self._set(gate, self._formulas.gate(total), unit)
        if self._given.bias is None:
            with T.serial(self._layer.hidden) as unit:
                self._set(self._reset, self._reset[unit] * hidden[unit], unit)
        with T.serial(self._layer.hidden) as unit:
            if self._given.bias is None:
                product = self._sum(self._reset, 2, unit)
            else:
                product = self._reset[unit] * (self._sum(hidden, 2, unit) + self._given.bias[unit])
            new = self._formulas.new(self._input(place, 2, unit) + product)
            mixed = self._formulas.mixed(self._update[unit], new, hidden[unit])
            self._set(self._new, mixed, unit)

    def _rnn(self, place: tuple[Expr, Expr]) -> None:
        with T.serial(self._layer.hidden) as unit:
            total = self._input(place, 0, unit) + self._sum(self._states[0], 0, unit)
            self._set(self._new, self._formulas.gate(total), unit)

    def _input(self, place: tuple[Expr, Expr], gate: int, unit: Expr) -> Expr:
        return self._given.products[(*place, gate * self._layer.hidden + unit)]

    def _sum(self, state: Any, gate: int, unit: Expr) -> Expr:
        """Emit the product of a state with the weights of a gate's unit."""
        total = on_stack([1], self._layer.dtype)
        self._set(total, tirx.const(0, self._layer.dtype), 0)
        with T.serial(self._layer.hidden) as k:
            weight = self._given.weights[k, gate * self._layer.hidden + unit]
            self._set(total, total[0] + state[k] * weight, 0)
        return total[0]

    def _units(self) -> Any:
        return T.alloc_buffer((self._layer.hidden,), self._layer.dtype)

    def _apply(self, name: str, *operands: Any) -> Expr:
        """Compute an operation once; TVM would inline its expression wherever it is read."""
        kept = on_stack([1], self._layer.dtype)
        self._set(kept, _OPERATIONS[name](*(self._number(x) for x in operands)), 0)
        return kept[0]

    def _number(self, x: Any) -> Expr:
        return tirx.const(x, self._layer.dtype) if isinstance(x, float) else x

    @staticmethod
    def _set(buffer: Any, value: Expr, *place: Expr) -> None:
        T.buffer_store(buffer, value, list(place))


def _zero(x: Expr) -> Expr:
    return tirx.const(0, x.ty.dtype)


# The second operand of a minimum or maximum is the result where the two do not compare.
_OPERATIONS: dict[str, Callable[..., Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": lambda a, b: T.max(b, a),
    "minimum": lambda a, b: T.min(b, a),
    "exp": T.exp,
    "log": T.log,
    "abs": T.abs,
    "relu": lambda x: T.max(_zero(x), x),
    "sigmoid": T.sigmoid,
    "tanh": T.tanh,
    "threshold": lambda x, limit: tirx.Select(x < limit, _zero(x), x),
}
