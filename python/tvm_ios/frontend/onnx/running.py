# SPDX-License-Identifier: Apache-2.0
"""Branches and loops that are decided while the network runs.

Sizes are known before that, so both branches have results of the same shapes, and a step's states
have the shapes of those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from ..emitter import constant, constant_array, dtype_of, shape_of
from ..parts import chosen, repeated
from .node_emitter import NodeEmitter
from .operators import Value
from .values import form_of, tensors_of, with_tensors

if TYPE_CHECKING:
    import onnx

    from .graph import Graphs

_ENDLESS = (1 << 63) - 1


def single(emit: NodeEmitter, value: Value, dtype: str, what: str) -> relax.Expr:
    """Return a tensor of one element without axes.

    Raises
    ------
    ModelError
        If it has another type, or several elements.
    """
    if not isinstance(value, relax.Expr) or dtype_of(value) != dtype:
        raise emit.error(f"needs {what} as {dtype}.")
    if any(size != 1 for size in shape_of(value)):
        raise emit.error(f"needs {what} as one element, but is given {list(shape_of(value))}.")
    return emit.reshape(value, [])


def branch(
    emit: NodeEmitter,
    condition: relax.Expr,
    then: onnx.GraphProto,
    otherwise: onnx.GraphProto,
    graphs: Graphs,
) -> Value:
    """Convert both branches of an ``If`` to functions, of which one is called."""
    (first, results), (second, others) = (
        graphs.part("branch", g, [], []) for g in (then, otherwise)
    )
    forms = [list(map(form_of, outputs)) for outputs in (results, others)]
    if forms[0] != forms[1]:
        raise emit.error(
            f"chooses between results of different types or shapes{emit.while_running(condition)}."
        )
    call = emit(chosen(emit.builder, emit.builder.part_name("choice"), condition, first, second))
    return with_tensors(tuple(results), iter(_fields(emit, call, tensors_of(tuple(results)))))


def loop(
    emit: NodeEmitter,
    count: relax.Expr | None,
    condition: relax.Expr,
    states: Sequence[Value],
    graph: onnx.GraphProto,
    graphs: Graphs,
) -> Value:
    """Convert a step of a ``Loop`` to a function, which is called as often as it turns out."""
    if len(graph.output) - 1 > len(states):
        raise emit.error(
            "has results of each of its steps, whose number is not known before it runs, or is too "
            "large to unroll them."
        )
    tensors = tensors_of(tuple(states))
    number = relax.Var("step", relax.TensorType((), "int64"))
    flag = relax.Var("goes_on", condition.ty)
    inside = [relax.Var(f"state_{i}", tensor.ty) for i, tensor in enumerate(tensors)]
    given = with_tensors(tuple(states), iter(inside))
    assert isinstance(given, tuple), "the states are several"
    made, outputs = graphs.part("step", graph, [number, flag, *given], [number, flag, *inside])
    if count is None and _holds(outputs[0], flag):
        raise emit.error("never ends, as it has no number of steps and its condition stays true.")
    if list(map(form_of, outputs[1:])) != list(map(form_of, states)):
        raise emit.error("changes the type or the shape of a state, which is not supported.")
    most = constant(np.array(_ENDLESS)) if count is None else count
    name = emit.builder.part_name("loop")
    call = emit(repeated(emit.builder, name, most, condition, tensors, made))
    results = _fields(emit, call, [number, flag, *tensors])[2:]
    return with_tensors(tuple(states), iter(results))


def _holds(result: Value, flag: relax.Var) -> bool:
    """Return whether a condition is true whenever it was true before."""
    if not isinstance(result, relax.Expr):
        return False
    known = constant_array(result)
    return result.same_as(flag) if known is None else bool(known.reshape(-1)[0])


def _fields(emit: NodeEmitter, call: relax.Expr, tensors: Sequence[relax.Expr]) -> list[relax.Expr]:
    return [emit(relax.TupleGetItem(call, i)) for i in range(len(tensors))]
