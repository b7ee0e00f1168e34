# SPDX-License-Identifier: Apache-2.0
"""The emitter of what one node of an exported program computes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from ...support.errors import ModelError
from ..bindings import Bindings
from ..emitter import constant, shape_of
from ..onnx.node_emitter import SMALL, NodeEmitter
from ..onnx.operators.cast import converted

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
    """

    def __init__(self, bindings: Bindings, node: torch.fx.Node) -> None:
        super().__init__(bindings, f"The operator {node.target} ({node.name})", 0, _wanted(node))
        self._node = node

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
    def shape(self) -> list[int]:
        """The shape of the first result."""
        return [int(size) for size in self.result().shape]

    def is_empty(self) -> bool:
        """Return whether no result has an element."""
        return all(0 in getattr(tensor, "shape", ()) for tensor in self._results())

    def empty(self) -> Any:
        """Return results without elements."""
        found = tuple(
            constant(np.zeros(tuple(tensor.shape), name_of_dtype(tensor.dtype, self.where)))
            for tensor in self._results()
        )
        return found if isinstance(self._node.meta["val"], tuple | list) else found[0]

    def _results(self) -> Sequence[torch.Tensor]:
        value = self._node.meta["val"]
        return value if isinstance(value, tuple | list) else [value]

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
        if isinstance(value, relax.Expr):
            return converted(self, value, dtype)
        return self.literal(value, dtype)

    def broadcast(self, x: relax.Expr, shape: Sequence[int]) -> relax.Expr:
        """Broadcast a tensor; a large weight does not count as so many constants.

        PyTorch repeats a weight for each batch of a product without a copy, and so does the kernel.
        """
        if shape_of(x) == tuple(shape) or np.prod(shape) <= SMALL:
            return super().broadcast(x, shape)
        return self.builder.emit(relax.op.broadcast_to(x, tuple(shape)))

    def called(self, converter: Any, *inputs: Any, **attributes: Any) -> relax.Expr:
        """Return the first result of a converter of ONNX's."""
        result = converter(self, *inputs, **attributes)
        return result[0] if isinstance(result, tuple) else result


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
