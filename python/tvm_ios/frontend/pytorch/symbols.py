# SPDX-License-Identifier: Apache-2.0
"""Sizes that stay open in a program of PyTorch, which calls them by symbols.

PyTorch derives the shape of each result as an expression of these symbols. Asking a symbolic number
of PyTorch for its value would fix it, so only its expression is read.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ...sizes.ratio import NotExact, Ratio
from ...sizes.size import AnySize
from ...support.errors import ModelError


class Symbols:
    """What the symbols of a program stand for.

    Attributes
    ----------
    values : dict of str to size
        By the name of the symbol.
    dimensions : dict of sympy.Expr to size
        Dimensions of inputs that are expressions of symbols.
    """

    def __init__(self) -> None:
        self.values: dict[str, AnySize] = {}
        self.dimensions: dict[Any, AnySize] = {}

    def size(self, number: Any) -> AnySize:
        """Return an integer of a program as a size.

        Parameters
        ----------
        number : int or torch.SymInt

        Raises
        ------
        ModelError
            If the data decide it, or it is no whole number.
        """
        if isinstance(number, int):
            return number
        ratio = self.ratio(number.node.expr)
        assert ratio.below == 1, "an integer is a whole number"
        return ratio.above

    def fraction(self, number: Any) -> AnySize | float:
        """Return a number in floating point, which must be whole where it depends on sizes."""
        ratio = self.ratio(number.node.expr)
        if isinstance(ratio.above, int):
            return ratio.above / ratio.below
        if ratio.below != 1:
            raise ModelError(
                f"The program computes {number} from its sizes, which is no whole number, so that "
                "they cannot stay open; give the shapes of its inputs."
            )
        return ratio.above

    def knows(self, number: Any) -> bool:
        """Return whether a number of a program depends on nothing but known symbols."""
        names = () if isinstance(number, int | float) else number.node.expr.free_symbols
        return all(str(name) in self.values for name in names)

    def shape(self, tensor: Any) -> list[AnySize]:
        """Return the shape of what PyTorch says of a tensor."""
        return [self.size(number) for number in tensor.shape]

    def ratio(self, expr: Any) -> Ratio:
        """Return an expression of symbols as a size, or a fraction of one."""
        if expr in self.dimensions:
            return Ratio(self.dimensions[expr])
        if expr.is_Symbol:
            return self._of_symbol(str(expr))
        if expr.is_Integer:
            return Ratio(int(expr))
        if expr.is_Rational:
            return Ratio(int(expr.p), int(expr.q))
        if expr.is_Float:
            return exactly(float(expr))
        name = type(expr).__name__
        if name == "Pow" and expr.exp.is_Integer and expr.exp > 0:
            return self.ratio(expr.base) ** int(expr.exp)
        compute = COMPUTE.get(name)
        if compute is None:
            raise ModelError(
                f"The program computes {expr} from its sizes, which is not supported; give the "
                "shapes of its inputs."
            )
        try:
            return compute(*map(self.ratio, expr.args))
        except NotExact:
            raise rounded(expr) from None

    def _of_symbol(self, name: str) -> Ratio:
        if name not in self.values:
            raise ModelError(
                f"The program computes a size, {name}, from its data, which is not supported; "
                "export a model without it."
            )
        return Ratio(self.values[name])

    def holds(self, relation: Any) -> bool:
        """Return whether a relation holds; where it depends on sizes, it does as in the example."""
        name = type(relation).__name__
        if name in ("BooleanTrue", "BooleanFalse"):
            return bool(relation)
        if name == "And":
            return all(self.holds(part) for part in relation.args)
        if name == "Or":
            return any(self.holds(part) for part in relation.args)
        if name == "Not":
            return not self.holds(relation.args[0])
        if name not in RELATIONS:
            raise ModelError(
                f"The program assumes {relation} of its sizes, which is not supported; give the "
                "shapes of its inputs."
            )
        return RELATIONS[name](*map(self.ratio, relation.args))


def exactly(number: float) -> Ratio:
    """Return a number as a fraction.

    Raises
    ------
    ModelError
        If its products with sizes would be rounded.
    """
    try:
        return Ratio.of(number)
    except NotExact:
        raise rounded(number) from None


def rounded(computed: object) -> ModelError:
    """Return the error of sizes that a program rounds, or divides by."""
    return ModelError(
        f"The program computes {computed} from its sizes, which is rounded, so that they cannot "
        "stay open; give the shapes of its inputs."
    )


def _of_all(compute: Callable[[Ratio, Ratio], Ratio]) -> Callable[..., Ratio]:
    return lambda *parts: functools.reduce(compute, parts)


COMPUTE: dict[str, Callable[..., Ratio]] = {
    "Add": _of_all(operator.add),
    "Mul": _of_all(operator.mul),
    "Max": _of_all(Ratio.larger),
    "Min": _of_all(Ratio.smaller),
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": lambda a, b: -(-a // b),
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "ToFloat": lambda number: number,
    "Identity": lambda number: number,
    "TruncToInt": Ratio.trunc,
    "FloorToInt": Ratio.floor,
    "CeilToInt": Ratio.ceil,
    "floor": Ratio.floor,
    "ceiling": Ratio.ceil,
}
"""The functions that PyTorch's expressions of sizes have, by name."""

RELATIONS: dict[str, Callable[[Ratio, Ratio], bool]] = {
    "Equality": Ratio.equals,
    "Unequality": lambda a, b: not a.equals(b),
    "StrictLessThan": Ratio.is_less,
    "LessThan": lambda a, b: not b.is_less(a),
    "StrictGreaterThan": lambda a, b: b.is_less(a),
    "GreaterThan": lambda a, b: not a.is_less(b),
}


def is_number(node: Any) -> bool:
    """Return whether a node of a program computes a number, or a truth, from sizes and numbers."""
    import torch

    if node.op != "call_function" or not isinstance(
        node.meta.get("val"), int | float | torch.SymInt | torch.SymFloat | torch.SymBool
    ):
        return False
    of_data = isinstance(node.target, torch._ops.OpOverload)
    return not of_data or str(node.target).startswith("aten.sym_")
