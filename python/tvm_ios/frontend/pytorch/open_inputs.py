# SPDX-License-Identifier: Apache-2.0
"""The inputs of a program whose dimensions stay open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...sizes.size import LARGEST_SIZE, AnySize, OpenSizes, decide_equal
from ...support.errors import ModelError
from ..dimensions import Bounds, Completed, Declared, Given, complete
from .symbols import Symbols

if TYPE_CHECKING:
    import torch

_SOURCE = re.compile(r"L((?:\['?\w+'?\])+)\.size\(\)\[(\d+)\]")
_KEY = re.compile(r"\w+")


def open_symbols(program: torch.export.ExportedProgram, given: Given, opened: OpenSizes) -> Symbols:
    """Return what the symbols of a program stand for.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    given : Given
        What the user says of the dimensions that the program leaves open.
    opened : OpenSizes
        Receives the dimensions that stay open.

    Raises
    ------
    ModelError
        If a size does not fit.
    """
    shapes = given_shapes(program, given)
    opening = _Opening(program, given, opened)
    axes = [
        (node, axis, size)
        for node in inputs_of(program)
        for axis, size in enumerate(shapes[node.name])
        if not isinstance(_sizes(node)[axis], int)
    ]
    for node, axis, size in axes:
        if isinstance(size, int):
            opening.give(node, axis, size)
    # Those of symbols alone come first, so that others may depend on them.
    for node, axis, size in sorted(axes, key=lambda item: not _expr(*item[:2]).is_Symbol):
        if isinstance(size, str):
            opening.open(node, axis, size)
    return opening.symbols


def given_shapes(program: torch.export.ExportedProgram, given: Given) -> Completed:
    """Return the shapes of a program's inputs, with what the user gives."""
    names: dict[Any, str] = {}
    inputs = [_declared(node, names) for node in inputs_of(program)]
    if given.batch is not None and all(value.sizes[:1] != [None] for value in inputs):
        raise ModelError(
            "No input of the program leaves its first dimension open for a batch size; export it "
            "with a dynamic one."
        )
    return complete("The program", inputs, given)


def inputs_of(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """Return the program's own inputs, in their order."""
    names = set(program.graph_signature.user_inputs)
    return [n for n in program.graph.nodes if n.op == "placeholder" and n.name in names]


def _declared(node: torch.fx.Node, names: dict[Any, str]) -> Declared:
    """Return what a program says of an input; a dimension is called as one that it is equal to."""
    sizes = [size if isinstance(size, int) else None for size in _sizes(node)]
    called = []
    for axis, size in enumerate(sizes):
        name = f"{node.name}.{axis}"
        if size is None:
            name = names.setdefault(_expr(node, axis), _name(node, axis))
        called.append(name)
    return Declared(node.name, sizes, called)


def _sizes(node: torch.fx.Node) -> Any:
    import torch

    tensor = node.meta["val"]
    if not isinstance(tensor, torch.Tensor):
        raise ModelError(f"Input {node.name!r} is not a tensor; only tensors can be inputs.")
    return tensor.shape


def _expr(node: torch.fx.Node, axis: int) -> Any:
    return _sizes(node)[axis].node.expr


class _Opening:
    """A receiver of sizes that symbols are given or that stay open."""

    def __init__(
        self, program: torch.export.ExportedProgram, given: Given, opened: OpenSizes
    ) -> None:
        self.symbols, self._given, self._opened = Symbols(), given, opened
        self._ranges = {str(name): bounds for name, bounds in program.range_constraints.items()}

    def give(self, node: torch.fx.Node, axis: int, size: int) -> None:
        """Set the symbol of a dimension to what gives it a size."""
        expr = _expr(node, axis)
        if not self._is_known(expr):
            symbol, factor, offset = _linear(expr)
            least, most = self._bounds(symbol)
            value = (size - offset) // factor
            if not least <= value <= most:
                raise ModelError(
                    f"The program does not allow these shapes: dimension {axis} of {node.name!r} "
                    f"must be from {factor * least + offset} to {factor * most + offset}, got "
                    f"{size}."
                )
            self.symbols.values[symbol] = value
        found: AnySize = self.symbols.ratio(expr).above
        if found != size:
            raise ModelError(
                f"The program does not allow these shapes: dimension {axis} of {node.name!r} is "
                f"{expr}, so it cannot be {size}."
            )

    def open(self, node: torch.fx.Node, axis: int, name: str) -> None:
        """Open a dimension of an input, unless its symbol is known."""
        expr = _expr(node, axis)
        if self._is_known(expr):
            return
        symbol, factor, offset = _linear(expr)
        least, most = self._bounds(symbol)
        ends = self._wanted(name, (factor * least + offset, factor * most + offset))
        hint = min(max(_sizes(node)[axis].node.hint, ends[0]), ends[1])
        size = self._opened.open(name, hint - (hint - offset) % factor, *ends)
        if factor != 1 and not decide_equal((size - offset) % factor, 0):
            raise ModelError(f"No size of {name!r} is one that the program allows.")
        self.symbols.values[symbol] = (size - offset) // factor
        self.symbols.dimensions[expr] = size

    def _is_known(self, expr: Any) -> bool:
        return all(str(name) in self.symbols.values for name in expr.free_symbols)

    def _bounds(self, symbol: str) -> Bounds:
        """Return the least and the largest value of a symbol."""
        bounds = self._ranges.get(symbol)
        if bounds is None:
            return 1, LARGEST_SIZE
        most = int(bounds.upper) if bounds.upper.is_Integer else LARGEST_SIZE
        return max(int(bounds.lower), 1), min(most, LARGEST_SIZE)

    def _wanted(self, name: str, allowed: Bounds) -> Bounds:
        """Return the bounds of a dimension that the program allows and the user gives."""
        given = self._given.dims.get(name, (1, LARGEST_SIZE))
        assert isinstance(given, tuple), "a dimension of known size is not open"
        least, most = max(given[0], allowed[0]), min(given[1], allowed[1])
        if least > most:
            raise ModelError(
                f"The program allows sizes of {name!r} from {allowed[0]} to {allowed[1]}."
            )
        return least, most


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
    for source, name in names.items():
        found = _SOURCE.fullmatch(source)
        if found and ("_".join(_KEY.findall(found[1])), int(found[2])) == (node.name, axis):
            return str(name)
    return f"{node.name}.{axis}"
