# SPDX-License-Identifier: Apache-2.0
"""Sizes of tensors that are known only when a network runs.

The compiler computes with a :class:`Size` as it does with an int: the result is an expression of
the open dimensions. Beside it goes the hint, which is the value for one example. Where the compiler
must decide something that the expression does not prove, such as which of two sizes is larger, the
hint decides, and the decision is recorded as a condition. Code is right for all sizes that fulfil
its conditions; whoever calls it checks them. That sizes are equal is assumed only where a model
requires it (:meth:`OpenSizes.require`): the example has a batch of 1, and square images, by chance.

A :class:`Size` is no int, and cannot become one: code that has not been written for open dimensions
fails with a TypeError and does not compute with the hint unnoticed.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.script.ir_builder import IRBuilder

from .examples import OtherExample, other_example, value_of
from .expressions import Expr, Known, long, shortened, text_of
from .prover import Prover

LARGEST_SIZE = (1 << 31) - 1
"""The largest size of an open dimension, as kernels count in 32 bits."""


@dataclass
class OpenSizes:
    """The open dimensions of a network, and the conditions under which its code is right.

    Attributes
    ----------
    hints : dict of tvm.ir.Var to int
        An example of each dimension.
    bounds : dict of tvm.ir.Var to (int, int)
        Its least and its largest size.
    conditions : list of Expr
        What was assumed of the dimensions, as int64 expressions that are true.
    assumes : bool
        Whether the example decides whether sizes are equal where that is not certain. Otherwise
        they are different, and code is right for those that are equal, too. What a model computes
        is decided by the example; how it is computed must not depend on it.
    examples : dict of str to int
        Examples of dimensions by name, where a network requires others than are usual.
    known : dict of str to int or str
        Dimensions by name that are no open ones, as the network requires one size, or that of
        another dimension.
    required : list of Expr
        What the examples were changed for, of dimensions of the same names.
    restarts : bool
        Whether :class:`.OtherExample` is raised where that turns out.
    always : list of Expr or None
        What was assumed of the whole network, while one of its branches is read.
    of_branch : bool
        Whether they are those of a function that is not always called: what is assumed of them is
        checked by its calls. See :mod:`.branches`.
    branches : list of OpenSizes
        Those of the network's branches, which live as long as these.
    """

    hints: dict[tvm.ir.Var, int] = field(default_factory=dict)
    bounds: dict[tvm.ir.Var, tuple[int, int]] = field(default_factory=dict)
    conditions: list[Expr] = field(default_factory=list)
    assumes: bool = True
    examples: dict[str, int] = field(default_factory=dict)
    known: dict[str, int | str] = field(default_factory=dict)
    required: list[Expr] = field(default_factory=list)
    restarts: bool = False
    always: list[Expr] | None = None
    of_branch: bool = False
    branches: list[OpenSizes] = field(default_factory=list)
    _prover: Prover = field(default_factory=Prover)
    _values: Known[int] = field(default_factory=Known)
    _short: dict[tvm.ir.Var, tvm.ir.Var] = field(default_factory=dict)

    def open(self, name: str, hint: int, least: int = 1, most: int = LARGEST_SIZE) -> AnySize:
        """Add a dimension between two bounds, and return it; it may be known already."""
        if name in self.known:
            return self._known(name, least, most)
        variable = tirx.Var(name, "int64")
        bounds = tvm.ir.Range.from_min_extent(long(least), long(most - least + 1))
        self.bounds[variable] = least, most
        self._prover.bind(variable, bounds)
        hint = self.examples.get(name, hint)
        self.hints[variable], self._short[variable] = hint, tirx.Var(name, "int32")
        _owners[variable] = self
        return Size(variable, hint, self)

    def _known(self, name: str, least: int, most: int) -> AnySize:
        """Return the size that a dimension is known to have."""
        value = self.known[name]
        if isinstance(value, int):
            return value
        if value in self.known:
            return self._known(value, least, most)
        variable = next(v for v in self.hints if v.name == value)
        size = Size(variable, self.hints[variable], self)
        for bound in (tirx.GE(variable, long(least)), tirx.LE(variable, long(most))):
            self.decide(bound, True)
        return size

    def restart(self, required: OtherExample) -> None:
        """Forget all dimensions, which will be opened again, with what is required of them."""
        examples = {**self.examples, **required.examples}
        known = {**self.known, **required.known}
        before = self.required if required.required is None else [*self.required, required.required]
        self.__init__(  # type: ignore[misc]
            examples=examples, known=known, required=before, restarts=True
        )

    @property
    def variables(self) -> list[tvm.ir.Var]:
        """The dimensions in order, as shapes of Relax have them."""
        return list(self.hints)

    @property
    def short(self) -> list[tvm.ir.Var]:
        """The same as kernels have them, in 32 bits."""
        return [self._short[variable] for variable in self.hints]

    @property
    def text(self) -> str:
        """All that code depends on, beside the sizes that it computes with."""
        dimensions = [(v.name, self.hints[v], self.bounds[v]) for v in self.hints]
        return f"{dimensions} {list(map(text_of, self.conditions))} {self.assumes}"

    def size(self, expr: Expr) -> int | Size:
        """Return the size that an expression of Relax stands for."""
        simple = self._prover.simplify(expr)
        if isinstance(simple, tirx.IntImm):
            return int(simple.value)
        return Size(simple, self.hint(simple), self)

    def unsimplified(self, expr: Expr) -> Size:
        """Return the size of an expression as it is, where simplifying would take long."""
        return Size(expr, self.hint(expr), self)

    def hint(self, expr: Expr) -> int:
        """Return the value of an expression for the example."""
        return self._values.get(expr, lambda e: value_of(e, self.hints))

    def decide(self, condition: Expr, hinted: bool) -> bool:
        """Return whether a condition holds; where that is not certain, assume what is hinted.

        Raises
        ------
        TypeError
            If it is not certain, and the example decides nothing any more.
        """
        proven = self.proven(condition)
        if proven is not None:
            return proven
        if not self.assumes:
            raise TypeError(f"whether {text_of(condition)} depends on open sizes")
        assumed = self._prover.simplify(condition if hinted else tirx.Not(condition))
        known = self._solved(assumed) if self.restarts and self.assumes else {}
        if known:
            raise OtherExample({}, known)
        self.conditions.append(assumed)
        return hinted

    def _solved(self, condition: Expr) -> dict[str, int | str]:
        """Return the dimension that is no open one if a condition holds."""
        if not isinstance(condition, tirx.EQ):
            return {}
        variables = sorted(tirx.analysis.undefined_vars(condition), key=self.variables.index)
        if len(variables) == 1:
            (variable,) = variables
            if self._follows(condition, tirx.EQ(variable, long(self.hints[variable]))):
                return {variable.name: self.hints[variable]}
        if len(variables) == 2:
            first, second = variables
            if self._follows(condition, tirx.EQ(first, second)):
                return {second.name: first.name}
        return {}

    def _follows(self, assumed: Expr, condition: Expr) -> bool:
        """Return whether a condition holds wherever another one does, too."""
        return self._prover.follows([*self.conditions, assumed], condition)

    def require(self, condition: Expr) -> bool:
        """Return whether a condition can hold, which is assumed then.

        Raises
        ------
        OtherExample
            If it does not hold for the example, but for another one.
        """
        proven = self.proven(condition)
        if not self.assumes:
            return proven is True
        if proven is not None or self.hint(condition):
            return self.decide(condition, True)
        conditions = [*self.conditions, *self._required_before()]
        found = other_example(condition, conditions, self.hints, self.bounds)
        if found is not None:
            raise OtherExample(found, required=condition)
        return False

    def _required_before(self) -> list[Expr]:
        """Return what examples were changed for, also in branches that are not read yet."""
        now = {variable.name: variable for variable in self.hints}
        put_in = [(tvm.ir.Var, lambda variable: now[variable.name])]
        return [
            tvm_ffi.structural_map(required, put_in)
            for required in self.required
            if all(v.name in now for v in tirx.analysis.undefined_vars(required))
        ]

    def limit(self, condition: Expr) -> None:
        """Add a condition without which code would not be right."""
        if self.proven(condition) is None:
            self.conditions.append(condition)

    def proven(self, condition: Expr) -> bool | None:
        """Return whether a condition holds for all sizes; None if it depends on them."""
        return self._prover.proven(condition, self.conditions)

    def shortened(self, expr: Expr) -> Expr:
        """Return an expression of dimensions in 32 bits."""
        return shortened(expr, self._short)


_owners: weakref.WeakValueDictionary[tvm.ir.Var, OpenSizes] = weakref.WeakValueDictionary()


class Size(tvm_ffi.core.ObjectConvertible):  # type: ignore[misc]
    """A size that depends on open dimensions; see the module.

    Parameters
    ----------
    expr : Expr
        An int64 expression of the dimensions.
    hint : int
        Its value for the example.
    owner : OpenSizes
    """

    __slots__ = ("_hash", "_negative", "expr", "hint", "owner")

    def __init__(self, expr: Expr, hint: int, owner: OpenSizes) -> None:
        self.expr, self.hint, self.owner = expr, hint, owner
        self._negative: Size | None = None  # of which it is the negative
        self._hash: int | None = None

    def asobject(self) -> Expr:
        """Return the expression that TVM is given: kernels count in 32 bits, Relax in 64."""
        return self.short if IRBuilder.is_in_scope() else self.expr

    @property
    def short(self) -> Expr:
        """The expression in 32 bits."""
        return self.owner.shortened(self.expr)

    def __repr__(self) -> str:
        return f"Size({self})"

    def __str__(self) -> str:
        return text_of(self.expr)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = tvm_ffi.structural_hash(self.expr)
        return self._hash

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __neg__(self) -> Any:
        if self._negative is not None:
            return self._negative
        result = self._with(-1, operator.mul)
        if isinstance(result, Size):
            result._negative = self
        return result

    def __floordiv__(self, other: Any) -> Any:
        if self._negative is not None and isinstance(other, int) and other > 0:
            return -((self._negative + (other - 1)) // other)  # TVM would divide by -other
        return self._with(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b // a)

    def __mod__(self, other: Any) -> Any:
        return self._with(other, operator.mod)

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b % a)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bool) or not isinstance(other, int | Size):
            return NotImplemented
        if isinstance(other, Size) and tvm_ffi.structural_equal(self.expr, other.expr):
            return True
        equal = tirx.EQ(self.expr, expr_of(other))
        proven = self.owner.proven(equal)
        if proven is None and self.owner.assumes:
            if self.hint == hint_of(other):  # by chance: that the batch is 1, or an image square
                raise TypeError(f"whether {text_of(equal)} depends on open sizes")
            return self._decide(equal, False)
        return proven is True

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return NotImplemented if equal is NotImplemented else not equal

    def __lt__(self, other: int | Size) -> bool:
        return self._decide(tirx.LT(self.expr, expr_of(other)), self.hint < hint_of(other))

    def __gt__(self, other: int | Size) -> bool:
        return self._decide(tirx.GT(self.expr, expr_of(other)), self.hint > hint_of(other))

    def __le__(self, other: int | Size) -> bool:
        return not self > other

    def __ge__(self, other: int | Size) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def _decide(self, condition: Expr, hinted: bool) -> bool:
        return self.owner.decide(condition, hinted)

    def _with(self, other: Any, compute: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, int | Size) and not isinstance(other, bool):
            expr = self.owner._prover.simplify(compute(self.expr, expr_of(other)))
            if isinstance(expr, tirx.IntImm):
                return int(expr.value)
            return Size(expr, compute(self.hint, hint_of(other)), self.owner)
        if isinstance(other, tvm.ir.Expr):
            return compute(self.asobject(), other)
        return NotImplemented


AnySize: TypeAlias = int | Size
AnyShape: TypeAlias = tuple[AnySize, ...]


def owner_of(exprs: Iterable[Expr]) -> OpenSizes | None:
    """Return the dimensions that any of some expressions of Relax depends on."""
    for expr in exprs:
        for variable in tirx.analysis.undefined_vars(expr):
            if variable in _owners:
                return _owners[variable]
    return None


def unsimplified(expr: Expr) -> AnySize:
    """Return the size of an expression as it is, where simplifying it would take long."""
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    for variable in tirx.analysis.undefined_vars(expr):
        if variable in _owners:
            return _owners[variable].unsimplified(expr)
    raise TypeError(f"{expr} is no size")


def unsimplified_sum(a: AnySize, b: AnySize) -> AnySize:
    """Return a sum, as of many terms, whose expression is left as it is."""
    if not isinstance(a, Size):
        return a + b if not isinstance(b, Size) else unsimplified_sum(b, a)
    return Size(a.expr + expr_of(b), a.hint + hint_of(b), a.owner)


def hint_of(size: AnySize) -> int:
    """Return a size, or the example of an open one."""
    return size.hint if isinstance(size, Size) else size


def is_open(shape: Iterable[AnySize]) -> bool:
    """Return whether any size of a shape depends on open dimensions."""
    return any(isinstance(size, Size) for size in shape)


def hints_of(shape: Iterable[AnySize]) -> tuple[int, ...]:
    """Return a shape, or the example of an open one."""
    return tuple(map(hint_of, shape))


def size_of(expr: Expr) -> AnySize:
    """Return the size that an expression of Relax stands for.

    Raises
    ------
    TypeError
        If it is not made of constants and of dimensions of :class:`OpenSizes`.
    """
    if isinstance(expr, int | Size):
        return expr
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    for variable in tirx.analysis.undefined_vars(expr):
        if variable in _owners:
            return _owners[variable].size(expr)
    raise TypeError(f"{expr} is no size")


def is_known(expr: Expr) -> bool:
    """Return whether an expression is a constant, or made of dimensions of :class:`OpenSizes`."""
    return isinstance(expr, tirx.IntImm) or any(
        variable in _owners for variable in tirx.analysis.undefined_vars(expr)
    )


def equality(a: AnySize, b: AnySize) -> tuple[OpenSizes, Expr] | None:
    """Return the dimensions of two sizes, and that these are equal; None if neither is open."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Size):
            return one.owner, tirx.EQ(one.expr, expr_of(other))
    return None


def decide_equal(a: AnySize, b: AnySize) -> bool:
    """Return whether two sizes are equal; the example decides where that is not certain."""
    found = equality(a, b)
    return a == b if found is None else found[0].decide(found[1], hint_of(a) == hint_of(b))


def known_equal(a: AnySize, b: AnySize) -> bool:
    """Return whether two sizes are equal for all dimensions, without an assumption."""
    found = equality(a, b)
    return a == b if found is None else found[0].proven(found[1]) is True


def prim(size: AnySize) -> Any:
    """Return a size as Relax takes it where it must be a number or an expression."""
    return size.expr if isinstance(size, Size) else size


def expr_of(size: AnySize) -> Expr:
    """Return a size as an int64 expression."""
    return size.expr if isinstance(size, Size) else long(size)
