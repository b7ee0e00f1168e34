# SPDX-License-Identifier: Apache-2.0
"""The inputs of a program whose dimensions stay open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ops.size import LARGEST_SIZE, AnySize, OpenSizes
from ...support.errors import ModelError
from ..shapes import Shapes, check_names
from .symbols import Symbols

if TYPE_CHECKING:
    import torch


def open_symbols(
    program: torch.export.ExportedProgram, shapes: Shapes, batch: int | None, opened: OpenSizes
) -> Symbols:
    """Return what the symbols of a program stand for.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    shapes : mapping of str to sequence of int
        Shapes of inputs by name.
    batch : int or None
        The first dimension of every input that leaves it open.
    opened : OpenSizes
        Receives the dimensions that stay open.

    Raises
    ------
    ModelError
        If a shape does not fit.
    """
    inputs = [node for node in inputs_of(program) if hasattr(node.meta.get("val"), "shape")]
    check_names("The program", shapes, [node.name for node in inputs])
    opening = _Opening(program, opened)
    for node in inputs:
        opening.give(node, _given(node, shapes.get(node.name), batch))
    derived = [
        (node, axis, size.node.expr)
        for node in inputs
        for axis, size in enumerate(node.meta["val"].shape)
        if not isinstance(size, int)
    ]
    for node, axis, expr in sorted(derived, key=lambda item: not item[2].is_Symbol):
        opening.open(node, axis, expr)
    return opening.symbols


def inputs_of(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """Return the program's own inputs, in their order."""
    names = set(program.graph_signature.user_inputs)
    return [n for n in program.graph.nodes if n.op == "placeholder" and n.name in names]


def _given(
    node: torch.fx.Node, shape: Sequence[int] | None, batch: int | None
) -> Sequence[int | None]:
    """Return the sizes that an input is given; None for those that stay open."""
    sizes = node.meta["val"].shape
    if shape is None:
        opens = batch is not None and len(sizes) > 0 and not isinstance(sizes[0], int)
        return [batch if opens and not axis else None for axis in range(len(sizes))]
    if len(shape) != len(sizes):
        raise ModelError(
            f"Input {node.name!r} has {len(sizes)} dimensions, but the shape given for it, "
            f"{list(shape)}, has {len(shape)}."
        )
    return shape


class _Opening:
    """A receiver of sizes that symbols are given or that stay open."""

    def __init__(self, program: torch.export.ExportedProgram, opened: OpenSizes) -> None:
        self.symbols, self._opened = Symbols(), opened
        self._ranges = {str(name): bounds for name, bounds in program.range_constraints.items()}

    def give(self, node: torch.fx.Node, sizes: Sequence[int | None]) -> None:
        """Set the symbols of an input's shape to sizes that are given."""
        for axis, (symbolic, size) in enumerate(zip(node.meta["val"].shape, sizes, strict=True)):
            if size is None:
                continue
            fixed = symbolic if isinstance(symbolic, int) else self._found(symbolic.node.expr, size)
            if fixed != size:
                raise ModelError(
                    f"Dimension {axis} of input {node.name!r} is {fixed} in the program, so it "
                    f"cannot be {size}."
                )

    def _found(self, expr: Any, size: int) -> AnySize:
        """Return the size of an expression, a symbol of which may be set to give it a size."""
        unknown = [name for name in expr.free_symbols if str(name) not in self.symbols.values]
        if unknown:
            symbol, factor, offset = _linear(expr)
            least, most = self._bounds(symbol)
            value = (size - offset) // factor
            if not least <= value <= most:
                raise ModelError(
                    f"The program does not allow these shapes: {symbol} must be from {least} to "
                    f"{most}, got {value}."
                )
            self.symbols.values[symbol] = value
        return self.symbols.ratio(expr).above

    def open(self, node: torch.fx.Node, axis: int, expr: Any) -> None:
        """Open a dimension of an input, unless its symbol is known."""
        if all(str(name) in self.symbols.values for name in expr.free_symbols):
            return
        symbol, factor, offset = _linear(expr)
        least, most = self._bounds(symbol)
        hint = node.meta["val"].shape[axis].node.hint
        ends = (factor * least + offset, min(factor * most + offset, LARGEST_SIZE))
        size = self._opened.open(_name(node, axis), hint, *ends)
        if factor != 1 and (size - offset) % factor != 0:
            raise ModelError(f"The example of {node.name!r} is at odds with its dimensions.")
        self.symbols.values[symbol] = (size - offset) // factor

    def _bounds(self, symbol: str) -> tuple[int, int]:
        """Return the least and the largest value of a symbol."""
        bounds = self._ranges.get(symbol)
        if bounds is None:
            return 1, LARGEST_SIZE
        most = int(bounds.upper) if bounds.upper.is_Integer else LARGEST_SIZE
        return max(int(bounds.lower), 1), min(most, LARGEST_SIZE)


def _linear(expr: Any) -> tuple[str, int, int]:
    """Return the symbol of a dimension, its factor, and what is added.

    Raises
    ------
    ModelError
        If it is of another kind.
    """
    if len(expr.free_symbols) == 1:
        (symbol,) = expr.free_symbols
        offset, factor = expr.subs(symbol, 0), expr.diff(symbol)
        if factor.is_Integer and factor > 0 and offset.is_Integer:
            return str(symbol), int(factor), int(offset)
    raise ModelError(
        f"The program has an input of which a dimension is {expr}; export it with another one."
    )


def _name(node: torch.fx.Node, axis: int) -> str:
    """Return the name of a dimension that the export was given, else that of the input's axis."""
    environment = getattr(node.meta["val"].fake_mode, "shape_env", None)
    names = getattr(environment, "source_name_to_debug_name", None) or {}
    return str(names.get(f"L['{node.name}'].size()[{axis}]", f"{node.name}.{axis}"))
