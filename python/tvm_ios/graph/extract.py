# SPDX-License-Identifier: Apache-2.0
"""Extraction of the operator graph from a prepared Relax function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax, tirx

from ..relax_ir.expressions import held_shape
from ..relax_ir.functions import relax_function
from ..support.errors import ModelError
from ..support.modules import module_path
from .operators import Operator, OperatorGraph
from .rearrange import Rearrangement, moves
from .recognise import flops_of, kind_of
from .region import Region, Uses, grow


def extract(mod: tvm.IRModule, function: str = "main") -> OperatorGraph:
    """Extract the operator graph of a prepared function.

    Each operator is an anchor with the elementwise operations that can be computed on its result
    while it is in registers. An unknown operation is an operator of its own. Operations with side
    effects keep their order relative to all others.

    Raises
    ------
    ModelError
        If the function computes nothing.
    """
    func = relax_function(mod, function)
    body = _Body.of(func)
    drafts = _group(body)
    if not drafts:
        raise ModelError(f"Function {function!r} computes nothing that could be scheduled.")
    drafts.sort(key=lambda draft: draft.place)
    return _assemble(mod, function, body, drafts)


@dataclass(frozen=True)
class _Body:
    """A function's bindings in order, their readers, and whether each is pure."""

    bindings: tuple[relax.Binding, ...]
    pure: tuple[bool, ...]
    uses: Uses

    @staticmethod
    def of(func: relax.Function) -> _Body:
        bindings, pure = [], []
        for block in func.body.blocks:
            for binding in block.bindings:
                bindings.append(binding)
                pure.append(isinstance(block, relax.DataflowBlock))
        return _Body(tuple(bindings), tuple(pure), Uses.of(bindings, func.body.body))


@dataclass(frozen=True)
class _Draft:
    """An operator without a number yet: the positions of its bindings and what it computes.

    Projections of a tuple are computed with it, whatever is between them.
    """

    members: tuple[int, ...]
    region: Region
    anchor: relax.Expr | None
    barrier: bool
    projected: bool = False

    @property
    def place(self) -> int:
        """The position by which all that it reads is there."""
        return self.members[0] if self.projected else self.members[-1]


def _group(body: _Body) -> list[_Draft]:
    """Assign every binding to one operator."""
    taken: set[int] = set()
    drafts = []
    for i, binding in enumerate(body.bindings):
        if i in taken:
            continue
        if not body.pure[i] or not isinstance(binding, relax.VarBinding):
            draft = _Draft((i,), Region(), _value(binding), barrier=not body.pure[i])
        else:
            draft = _grow_from(body, i, taken)
        taken.update(draft.members)
        drafts.append(draft)
    return drafts


def _grow_from(body: _Body, i: int, taken: set[int]) -> _Draft:
    """Build the operator that starts at binding ``i``."""
    value = body.bindings[i].value
    if isinstance(body.bindings[i].var.ty, relax.TupleType):
        projections = [
            k
            for k in body.uses.readers(body.bindings[i].var)
            if k is not None and isinstance(_value(body.bindings[k]), relax.TupleGetItem)
        ]
        return _Draft((i, *sorted(projections)), Region(), value, False, projected=True)
    *chain, last = _movements(body, i, taken)
    region = grow(body.bindings, body.pure, body.uses, last, taken)
    anchor = None if region.source is not None else value
    return _Draft((*chain, last, *region.absorbed), region, anchor, barrier=False)


def _movements(body: _Body, i: int, taken: set[int]) -> list[int]:
    """Return binding ``i`` and the following data movements that form one view with it."""
    chain, value = [i], body.bindings[i].value
    view = Rearrangement.of(held_shape(value.args[0])).then(value) if moves(value) else None
    while view is not None:
        readers = body.uses.readers(body.bindings[chain[-1]].var)
        reader = readers[0] if len(readers) == 1 else None
        if reader is None or reader in taken or not body.pure[reader]:
            break
        view = view.then(_value(body.bindings[reader]))
        if view is not None:
            chain.append(reader)
    return chain


def _assemble(mod: tvm.IRModule, function: str, body: _Body, drafts: list[_Draft]) -> OperatorGraph:
    """Number the operators and connect them."""
    owner = {k: n for n, draft in enumerate(drafts) for k in draft.members}
    assert len(owner) == len(body.bindings), "every binding belongs to one operator"
    edges: set[tuple[int, int]] = set()
    operators = []
    for n, draft in enumerate(drafts):
        inputs = _inputs(body, draft)
        definitions = (body.uses.definition(v) for v in inputs)
        producers = {p for p in definitions if p is not None}
        edges.update((owner[p], n) for p in producers)
        edges.update(_barrier_edges(drafts, n))
        operators.append(_operator(mod, body, draft, n, inputs))
    assert all(u < v for u, v in edges), "operators are in a topological order"
    return OperatorGraph(function, tuple(operators), tuple(sorted(edges)))


def _operator(
    mod: tvm.IRModule, body: _Body, draft: _Draft, n: int, inputs: tuple[relax.Var, ...]
) -> Operator:
    members = set(draft.members)
    variables = [body.bindings[k].var for k in draft.members]
    outputs = tuple(v for v in variables if any(r not in members for r in body.uses.readers(v)))
    kind = "elementwise" if draft.anchor is None else kind_of(draft.anchor)
    return Operator(
        index=n,
        name=f"{kind}_{n}",
        kind=kind,
        anchor=draft.anchor if isinstance(draft.anchor, relax.Call) else None,
        source=draft.region.source,
        epilogue=draft.region.epilogue,
        arguments=draft.region.arguments,
        bindings=tuple(body.bindings[k] for k in draft.members),
        inputs=inputs,
        outputs=outputs,
        opaque=draft.barrier or not isinstance(draft.anchor, relax.Call | None),
        barrier=draft.barrier,
        flops=_flops(draft),
        functions=_called(mod, (body.bindings[k] for k in draft.members)),
        module=next(filter(None, (module_path(v.name) for v in variables)), None),
    )


def _called(
    mod: tvm.IRModule, bindings: Iterable[relax.Binding]
) -> dict[tvm.ir.GlobalVar, tirx.PrimFunc]:
    """Return the TIR functions that bindings call."""
    variables: list[tvm.ir.GlobalVar] = []
    for binding in bindings:
        tvm_ffi.structural_walk(_value(binding), (tvm.ir.GlobalVar, variables.append))
    return {v: mod[v] for v in variables if isinstance(mod[v], tirx.PrimFunc)}


def _flops(draft: _Draft) -> int:
    return 0 if draft.anchor is None or draft.barrier else flops_of(draft.anchor)


def _inputs(body: _Body, draft: _Draft) -> tuple[relax.Var, ...]:
    """Return the variables that the operator reads but does not bind, in order of first use."""
    own = {body.bindings[k].var for k in draft.members}
    seen: dict[relax.Var, None] = {}
    for k in draft.members:
        for variable in body.uses.reads(k):
            if variable not in own:
                seen.setdefault(variable)
    return tuple(seen)


def _barrier_edges(drafts: list[_Draft], n: int) -> Iterable[tuple[int, int]]:
    """Return the edges that keep operators with side effects in order."""
    if drafts[n].barrier:
        return [(m, n) for m in range(n)]
    return [(m, n) for m in range(n) if drafts[m].barrier]


def _value(binding: relax.Binding) -> relax.Expr:
    return binding.value if isinstance(binding, relax.VarBinding) else binding.var
