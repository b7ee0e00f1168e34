# SPDX-License-Identifier: Apache-2.0
"""The emitter of what one node of an exported program computes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from ...sizes.size import AnySize, Size, hints_of, is_open, known_equal
from ...support.errors import ModelError
from ..bindings import Bindings
from ..emitter import constant, is_constant, shape_of
from ..onnx.node_emitter import SMALL, NodeEmitter
from ..onnx.operators.cast import converted
from .symbols import Symbols

if TYPE_CHECKING:
    import torch

_NUMBERS = frozenset((
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64",
))  # fmt: skip


class AtenEmitter(NodeEmitter):
    """An emitter that knows the types and shapes that PyTorch found out.

    Converters of ONNX's operators take it, too: what both compute alike is written once.

    Parameters
    ----------
    bindings : Bindings
    node : torch.fx.Node
    symbols : Symbols
        The sizes that stay open.
    """

    def __init__(self, bindings: Bindings, node: torch.fx.Node, symbols: Symbols) -> None:
        super().__init__(bindings, f"The operator {node.target} ({node.name})", 0, _wanted(node))
        self._node, self._symbols = node, symbols

    def result(self, number: int = 0) -> torch.Tensor:
        """Return what PyTorch says of a result: a tensor without values."""
        value = self._node.meta["val"]
        return value[number] if isinstance(value, tuple | list) else value

    def argument(self, number: int) -> torch.Tensor:
        """Return what PyTorch says of an argument that is a tensor."""
        value: torch.Tensor = self._node.args[number].meta["val"]
        return value

    @property
    def dtype(self) -> str:
        """The data type of the first result."""
        return name_of_dtype(self.result().dtype, self.where)

    @property
    def shape(self) -> list[AnySize]:
        """The shape of the first result."""
        return self.shape_of_result(0)

    def shape_of_result(self, number: int) -> list[AnySize]:
        """Return the shape of a result."""
        return self._symbols.shape(self.result(number))

    def is_empty(self) -> bool:
        """Return whether no result has an element."""
        tensors = [tensor for tensor in self._results() if hasattr(tensor, "shape")]
        return bool(tensors) and all(0 in self._symbols.shape(tensor) for tensor in tensors)

    def empty(self) -> Any:
        """Return results without elements."""
        found = tuple(
            self.full(self._symbols.shape(tensor), 0, name_of_dtype(tensor.dtype, self.where))
            for tensor in self._results()
        )
        return found if isinstance(self._node.meta["val"], tuple | list) else found[0]

    def _results(self) -> Sequence[torch.Tensor]:
        value = self._node.meta["val"]
        return value if isinstance(value, tuple | list) else [value]

    def check(self, result: Any) -> None:
        """Assume that results have the shapes that PyTorch found out, where sizes are open.

        Raises
        ------
        ModelError
            If they have others.
        """
        values = result if isinstance(result, tuple | list) else [result]
        for value, tensor in zip(values, self._results(), strict=False):
            if not isinstance(value, relax.Expr) or tensor.is_complex():
                continue
            found, wanted = shape_of(value), self._symbols.shape(tensor)
            if not is_open((*found, *wanted)):
                continue
            if len(found) != len(wanted) or not all(map(_same, found, wanted)):
                raise self.error(f"has the shape {found}, where PyTorch has {wanted}.")

    def common_dtype(self) -> str:
        """Return the type that the arguments are compared in, by PyTorch's rules."""
        from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

        values = [getattr(x, "meta", {}).get("val", x) for x in self._node.args]
        kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        dtype, _ = elementwise_dtypes(*values, type_promotion_kind=kind)
        return name_of_dtype(dtype, self.where)

    def operand(self, value: Any, dtype: str | None = None) -> relax.Expr:
        """Return a tensor or a number as a tensor of a type, by default that of the result."""
        dtype = dtype or self.dtype
        if isinstance(value, Size):
            value = self.sizes(np.array(value, object))
        if isinstance(value, relax.Expr):
            return converted(self, value, dtype)
        return self.literal(value, dtype)

    def broadcast(self, x: relax.Expr, shape: Sequence[AnySize]) -> relax.Expr:
        """Broadcast a tensor; a large weight does not count as so many constants.

        PyTorch repeats a weight for each batch of a product without a copy, and so does the kernel.
        """
        if is_open(shape) or math.prod(hints_of(shape)) <= SMALL:
            return super().broadcast(x, shape)
        if shape_of(x) == tuple(shape):
            return x
        return self.builder.emit(relax.op.broadcast_to(x, tuple(shape)))

    def slice(
        self, x: relax.Expr, axis: int, begin: AnySize, end: AnySize, step: int = 1
    ) -> relax.Expr:
        """Slice along an axis; of an open size, too, as many elements as PyTorch found out."""
        length = shape_of(x)[axis]
        whole = known_equal(begin, 0) and known_equal(end, length) and step == 1
        if whole or not is_open((length, begin, end)):
            return super().slice(x, axis, begin, end, step)
        return self(relax.op.strided_slice(x, [axis], [begin], [end], [step], assume_inbound=True))

    def steps(self, begin: AnySize, step: AnySize, count: AnySize) -> relax.Expr:
        """Return int64 numbers from the first one, each ``step`` more than the one before."""
        places = self.positions(count, "int64")
        if known_equal(step, 1) and known_equal(begin, 0):
            return places
        return self.sum(self.product(places, self.operand(step, "int64")),
                        self.operand(begin, "int64"))  # fmt: skip

    def sum(self, a: relax.Expr, b: relax.Expr) -> relax.Expr:
        """Return the sum; that of constants at once."""
        if is_constant(a) and is_constant(b):
            return constant(self.array(a, "a summand") + self.array(b, "a summand"))
        return self(relax.op.add(a, b))

    def called(self, converter: Any, *inputs: Any, **attributes: Any) -> relax.Expr:
        """Return the first result of a converter of ONNX's."""
        result = converter(self, *inputs, **attributes)
        return result[0] if isinstance(result, tuple) else result


def _same(found: AnySize, wanted: AnySize) -> bool:
    return known_equal(found, wanted) or bool(found == wanted)


def name_of_dtype(dtype: torch.dtype, where: str) -> str:
    """Return Relax's name of a type.

    Raises
    ------
    ModelError
        If no operator computes it.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in _NUMBERS:
        raise ModelError(f"{where} has the type {name}, which is not supported; export the model "
                         "with another type.")  # fmt: skip
    return name


def has_complex(node: torch.fx.Node) -> bool:
    """Return whether a node takes or returns complex numbers."""
    values = (each.meta.get("val") for each in (node, *node.all_input_nodes))
    tensors = (
        tensor
        for value in values
        for tensor in (value if isinstance(value, tuple | list) else [value])
    )
    return any(hasattr(tensor, "dtype") and tensor.dtype.is_complex for tensor in tensors)


def _wanted(node: torch.fx.Node) -> Sequence[bool]:
    """Return which results of a node are read."""
    value = node.meta.get("val")
    if not isinstance(value, tuple | list):
        return [True]
    read = [False] * len(value)
    for user in node.users:
        if user.target is operator.getitem:
            read[user.args[1]] = True
        else:
            return [True] * len(value)
    return read
