# SPDX-License-Identifier: Apache-2.0
"""Operators and the operator graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import tvm
from tvm import relax, tirx

from ..ops.epilogue import Epilogue
from .dag import Dag


@dataclass(frozen=True)
class Operator:
    """The unit that becomes one kernel: an anchor with the elementwise operations on its result.

    Attributes
    ----------
    index : int
        Its position in the graph's topological order.
    name : str
        The unique name: its kind and its index.
    kind : str
        The anchor's operator: ``conv2d``, ``concat``, ... or ``elementwise`` if it has no anchor.
    anchor : relax.Call or None
        The anchor; None for ``elementwise``.
    source : relax.Expr or None
        The tensor that an ``elementwise`` operator's epilogue starts from.
    epilogue : Epilogue
        The epilogue: the elementwise operations after the anchor.
    arguments : tuple of relax.Expr
        The epilogue's tensor arguments.
    bindings : tuple of relax.Binding
        All bindings of the function that the operator replaces, in order.
    inputs : tuple of relax.Var
        The variables that it reads and others bind, including parameters of the function.
    outputs : tuple of relax.Var
        The variables that it binds and that others read or the function returns.
    opaque : bool
        Whether it is opaque: it is left to TVM's default lowering and never shares a stage.
    barrier : bool
        Whether it may have side effects, because it is outside of dataflow blocks.
    flops : int
        Floating-point operations of the anchor; a multiply-add counts as two.
    functions : mapping of tvm.ir.GlobalVar to tvm.tirx.PrimFunc
        The TIR functions that it calls.
    module : str or None
        The module of the model that its anchor is from, such as ``features.3.conv``.
    """

    index: int
    name: str
    kind: str
    anchor: relax.Call | None
    source: relax.Expr | None
    epilogue: Epilogue
    arguments: tuple[relax.Expr, ...]
    bindings: tuple[relax.Binding, ...]
    inputs: tuple[relax.Var, ...]
    outputs: tuple[relax.Var, ...]
    opaque: bool
    barrier: bool
    flops: int
    functions: Mapping[tvm.ir.GlobalVar, tirx.PrimFunc] = field(default_factory=dict)
    module: str | None = None

    @cached_property
    def signature(self) -> str:
        """A description of its computation, without the values of weights and its graph index."""
        attributes = str(self.anchor.attrs) if self.anchor is not None else ""
        shapes = [str(e.ty) for e in self.anchor.args] if self.anchor is not None else []
        steps = ";".join(str(b.value.op) for b in self.bindings if _is_call(b))
        outputs = [str(v.ty) for v in self.outputs]
        return f"{self.kind}|{attributes}|{shapes}|{steps}|{self.epilogue}|{outputs}"

    @property
    def call(self) -> relax.Call:
        """The anchor of an operator that is known to have one."""
        assert self.anchor is not None, f"a {self.kind} has an anchor"
        return self.anchor

    @property
    def output_types(self) -> tuple[str, ...]:
        """The types of its results for display, such as ``float32[1, 64, 55, 55]``."""
        return tuple(text for value in self.outputs for text in _type_texts(value.ty))


def _type_texts(ty: tvm.ir.Type) -> list[str]:
    """Return the tensors of a type as text; without the shape if that is not known."""
    if isinstance(ty, relax.TupleType):
        return [text for field in ty.fields for text in _type_texts(field)]
    if not isinstance(ty, relax.TensorType):
        return [type(ty).__name__]
    if not isinstance(ty.shape, relax.ShapeExpr):
        return [str(ty.dtype)]
    sizes = [str(getattr(size, "value", size)) for size in ty.shape.values]
    return [f"{ty.dtype}[{', '.join(sizes)}]"]


def _is_call(binding: relax.Binding) -> bool:
    return isinstance(binding, relax.VarBinding) and isinstance(binding.value, relax.Call)


@dataclass(frozen=True)
class OperatorGraph:
    """The dataflow graph of one Relax function, a DAG.

    Attributes
    ----------
    function : str
        The function's name.
    operators : tuple of Operator
        The operators in topological order.
    edges : tuple of (int, int)
        The distinct pairs (producer, consumer), sorted.
    """

    function: str
    operators: tuple[Operator, ...]
    edges: tuple[tuple[int, int], ...]

    @cached_property
    def dag(self) -> Dag:
        return Dag(len(self.operators), self.edges)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """The producers that each operator reads."""
        before: list[list[int]] = [[] for _ in self.operators]
        for u, v in self.edges:
            before[v].append(u)
        return tuple(map(tuple, before))

    @cached_property
    def readers(self) -> dict[relax.Var, tuple[int, ...]]:
        """The operators that read each value."""
        readers: dict[relax.Var, list[int]] = {}
        for op in self.operators:
            for value in op.inputs:
                readers.setdefault(value, []).append(op.index)
        return {value: tuple(ops) for value, ops in readers.items()}

    def names(self, indices: Sequence[int]) -> list[str]:
        return [self.operators[i].name for i in indices]
