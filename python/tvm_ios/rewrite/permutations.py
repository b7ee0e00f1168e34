# SPDX-License-Identifier: Apache-2.0
"""Permutations that move towards others, which they cancel.

An exporter of a network whose channels come last writes each convolution between two permutations.
What lies between two convolutions does not depend on the order of axes: it is computed in that of
the convolutions.
"""

from __future__ import annotations

import math
from collections import Counter

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import held_shape, is_op, known_shape, op_name
from ..relax_ir.functions import bindings_of, use_counts
from ..sizes.size import AnyShape, AnySize, hint_of, known_equal
from .permuted import RESHAPES, RULES, Axes, Permuted, axes_of, inverse

_SMALL = 8  # times smaller than the result is an operand that is permuted for it
_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")  # which compute what follows in registers


def move_permutations(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Move permutations behind what reads them, where fewer elements are permuted thereby."""
    if not any(is_op(value, "permute_dims") for value in bindings_of(func).values()):
        return func
    trial = _Mover(mod, func, _values(func))
    trial.visit_expr(func)
    useful = trial.useful()
    return _Mover(mod, func, useful).visit_expr(func) if useful else func


def _values(func: relax.Function) -> set[relax.Var]:
    """Return the variables of a function but for tuples that are read as a whole."""
    bound, uses = bindings_of(func), use_counts(func)
    parts = Counter(v.tuple_value for v in bound.values() if isinstance(v, relax.TupleGetItem))
    return {
        variable
        for variable in bound
        if not isinstance(variable.ty, relax.TupleType) or parts[variable] == uses.get(variable)
    }


@mutator
class _Mover(PyExprMutator):
    """A mutator that computes with the sources of permuted tensors.

    Variables that depend on each other in this form belong to one area, for which it is counted
    how many elements are permuted more than before.

    Parameters
    ----------
    mod : tvm.IRModule
    chosen : set of relax.Var
        The variables that may be permutations of others.
    """

    def __init__(self, mod: tvm.IRModule, func: relax.Function, chosen: set[relax.Var]) -> None:
        super().__init__(mod)
        self._bound, self._chosen = bindings_of(func), chosen
        self._permuted: dict[relax.Var, Permuted] = {}
        self._wholes: dict[relax.Var, relax.Expr] = {}
        self._areas: dict[relax.Var, set[relax.Var]] = {}
        self._more: dict[relax.Var, int] = {}
        self._convolved: set[relax.Var] = set()
        self._movements: set[relax.Var] = set()
        self._regrouped: set[relax.Var] = set()
        self._normalised: set[relax.Var] = set()

    def useful(self) -> set[relax.Var]:
        """Return the variables of the areas in which fewer elements are permuted than before."""
        return {variable for variable, area in self._areas.items() if self._is_useful(area)}

    def _is_useful(self, area: set[relax.Var]) -> bool:
        """Return whether an area permutes less, or as much and joins what a convolution computes.

        A convolution's result is in blocks, which a reshape would have to copy, and a normalisation
        of rows is as good.
        """
        more = sum(self._more.get(member, 0) for member in area)
        others = self._regrouped | self._normalised
        joins = not area.isdisjoint(self._convolved) and area.isdisjoint(others)
        return more < 0 or (more == 0 and joins)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        variable = binding.var
        chosen = variable in self._chosen
        found = self._moved(variable, binding.value) if chosen else None
        if found is None:
            super().visit_var_binding_(binding)
            return
        if not isinstance(found.source, relax.Var):
            found = Permuted(self.builder_.emit(found.source, variable.name), found.axes)
        if isinstance(variable, relax.DataflowVar):
            self._permuted[variable] = found
        else:  # a result of the block
            super().visit_var_binding_(relax.VarBinding(variable, self._whole(variable, found)))

    def visit_dataflow_var_(self, var: relax.DataflowVar) -> relax.Expr:
        """Permute what is read in its own order."""
        found = self._permuted.get(var)
        if found is None or isinstance(found.source.ty, relax.TupleType):
            return super().visit_dataflow_var_(var)
        if var not in self._wholes:
            whole = self._whole(var, found)
            is_new = isinstance(whole, relax.Call)
            self._wholes[var] = self.builder_.emit(whole, var.name) if is_new else whole
        return self._wholes[var]

    def _whole(self, var: relax.Var, found: Permuted) -> relax.Expr:
        """Return a permuted tensor; one that is reshaped is permuted before, as it was."""
        if var in self._regrouped and found.elements:
            return super().visit_call_(self._bound[var])
        self._count(var, found.elements)
        return found.whole()

    def _moved(self, variable: relax.Var, value: relax.Expr) -> Permuted | None:
        """Return a value as a permutation of another one; None if it is computed as it is."""
        if isinstance(value, relax.TupleGetItem):
            parts = self._permuted.get(value.tuple_value)
            if parts is None:
                return None
            self._join(variable, [value.tuple_value])
            return Permuted(relax.TupleGetItem(parts.source, value.index), parts.axes)
        if is_op(value, "permute_dims") and known_shape(value) is not None:
            return self._permutation(variable, value)
        rule = RULES.get(op_name(value))
        return None if rule is None else self._by_rule(variable, value)

    def _permutation(self, variable: relax.Var, call: relax.Call) -> Permuted:
        data, axes = call.args[0], axes_of(call)
        if isinstance(data, relax.Var) and data in self._permuted:
            self._join(variable, [data])
            found = self._permuted[data].permuted(axes)
            follows = data in self._movements and not found.stays
        else:
            self._join(variable, [])
            found, follows = Permuted(self.visit_expr(data), axes), False
        if not follows:  # movements that follow each other are one
            self._count(variable, -Permuted(data, axes).elements)
        self._movements.add(variable)
        if op_name(self._bound.get(data)) in _CONVOLUTIONS:
            self._convolved.add(variable)
        return found

    def _by_rule(self, variable: relax.Var, call: relax.Call) -> Permuted | None:
        operands = _tensors(call)
        permuted = [x for x in operands if isinstance(x, relax.Var) and x in self._permuted]
        if not permuted or (known_shape(call) is None and not is_op(call, "split")):
            return None
        lead = max(permuted, key=lambda x: math.prod(map(hint_of, held_shape(x))))
        data, extra = self._permuted[lead], 0

        def align(operand: relax.Expr, shape: AnyShape) -> relax.Expr | None:
            nonlocal extra
            found = self._aligned(operand, data.axes, shape)
            if found is None or isinstance(found, relax.Expr):
                return found
            extra += found.elements
            return found.whole()

        moved = RULES[op_name(call)](call, data, align)
        if moved is not None:
            self._join(variable, permuted)
            self._count(variable, extra)
            if op_name(call) in RESHAPES:
                self._note_reshape(variable, call)
            if is_op(call, "nn.layer_norm"):
                self._normalised.add(variable)
        return moved

    def _note_reshape(self, variable: relax.Var, call: relax.Call) -> None:
        data = call.args[0]
        if data in self._movements:
            self._movements.add(variable)
        if _sizes(call) != _sizes(data):
            self._regrouped.add(variable)

    def _aligned(
        self, operand: relax.Expr, axes: Axes, shape: AnyShape
    ) -> relax.Expr | Permuted | None:
        """Return an operand in the order of the source that is permuted by ``axes``.

        None if that would permute as many elements as the result has.
        """
        own = known_shape(operand)
        if own == () or not _is_tensor(operand):
            return self.visit_expr(operand)
        if own is None:
            return None
        found = self._permuted.get(operand) if isinstance(operand, relax.Var) else None
        if found is not None and found.axes == axes:
            return found.source
        missing = len(shape) - len(own)
        array = constant_array(operand)
        if array is not None:
            spread = array.reshape((1,) * missing + array.shape).transpose(inverse(axes))
            return relax.const(spread, str(array.dtype))
        size, whole = (math.prod(map(hint_of, sizes)) for sizes in (own, shape))
        if found is not None and not missing:
            moved = found.permuted(inverse(axes))
        else:
            full = operand if not missing else relax.op.reshape(operand, (1,) * missing + own)
            moved = Permuted(self.builder_.normalize(self.visit_expr(full)), inverse(axes))
        return moved if moved.stays or size * _SMALL <= whole else None

    def _join(self, variable: relax.Var, others: list[relax.Var]) -> None:
        """Make one area of those of some variables."""
        area = {variable}.union(*(self._areas[other] for other in others))
        self._areas.update(dict.fromkeys(area, area))

    def _count(self, variable: relax.Var, more: int) -> None:
        self._more[variable] = self._more.get(variable, 0) + more


def _is_tensor(expr: relax.Expr) -> bool:
    return isinstance(expr.ty, relax.TensorType)


def _sizes(expr: relax.Expr) -> list[AnySize]:
    """Return the sizes of a tensor's axes that have several elements."""
    return [n for n in held_shape(expr) if not known_equal(n, 1)]


def _tensors(call: relax.Call) -> list[relax.Expr]:
    """Return what a call reads, and the parts of a tuple that it reads."""
    return [
        part
        for operand in call.args
        for part in (operand.fields if isinstance(operand, relax.Tuple) else [operand])
    ]
