# SPDX-License-Identifier: Apache-2.0
"""Operators and the operator graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import tvm
from tvm import relax

from ..tir.epilogue import Program
from .dag import Dag


@dataclass(frozen=True)
class Operator:
    """What becomes one kernel: an anchor and the elementwise operations computed on its result.

    Attributes
    ----------
    index : int
        Its place in the graph, a topological order.
    name : str
        Unique in the graph, for people: the variable that holds its result.
    kind : str
        The anchor's operator: ``conv2d``, ``concat``, ... ``elementwise`` when it has no anchor.
    anchor : relax.Call or None
        None for ``elementwise``.
    source : relax.Expr or None
        What an ``elementwise`` operator's program starts from.
    program : Program
        The elementwise operations after the anchor.
    arguments : tuple of relax.Expr
        The program's tensor arguments.
    bindings : tuple of relax.Binding
        All bindings of the function that it stands for, in order.
    inputs : tuple of relax.Var
        Variables it reads that others bind (parameters of the function included).
    outputs : tuple of relax.Var
        Variables it binds that others read, or that the function returns.
    alone : bool
        It is kept as TVM wrote it and never shares a stage.
    barrier : bool
        It may have effects, and stands outside of dataflow blocks.
    flops : int
        Floating-point operations of the anchor, a multiply-add counted as two.
    """

    index: int
    name: str
    kind: str
    anchor: relax.Call | None
    source: relax.Expr | None
    program: Program
    arguments: tuple[relax.Expr, ...]
    bindings: tuple[relax.Binding, ...]
    inputs: tuple[relax.Var, ...]
    outputs: tuple[relax.Var, ...]
    alone: bool
    barrier: bool
    flops: int

    @cached_property
    def signature(self) -> str:
        """What it computes, without its weights' values and its place in the graph."""
        attributes = str(self.anchor.attrs) if self.anchor is not None else ""
        shapes = [str(e.ty) for e in self.anchor.args] if self.anchor is not None else []
        steps = ";".join(str(b.value.op) for b in self.bindings if _is_call(b))
        outputs = [str(v.ty) for v in self.outputs]
        return f"{self.kind}|{attributes}|{shapes}|{steps}|{self.program}|{outputs}"

    @property
    def call(self) -> relax.Call:
        """The anchor of an operator that is known to have one."""
        assert self.anchor is not None, f"a {self.kind} has an anchor"
        return self.anchor

    @property
    def output_types(self) -> tuple[str, ...]:
        """The types of its results for people, as ``float32[1, 64, 55, 55]``."""
        return tuple(text for value in self.outputs for text in _type_texts(value.ty))


def _type_texts(ty: tvm.ir.Type) -> list[str]:
    """A type's tensors; of one whose shape is not known, the type alone."""
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
    """The dataflow DAG of one Relax function.

    Attributes
    ----------
    function : str
        The function's name.
    operators : tuple of Operator
        In a topological order.
    edges : tuple of (int, int)
        (producer, consumer), sorted, without repetition.
    """

    function: str
    operators: tuple[Operator, ...]
    edges: tuple[tuple[int, int], ...]

    @cached_property
    def dag(self) -> Dag:
        return Dag(len(self.operators), self.edges)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Per operator the producers that it reads."""
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
