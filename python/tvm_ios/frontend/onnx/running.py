# SPDX-License-Identifier: Apache-2.0
"""Branches and loops that are decided while the network runs.

Sizes are known before that, so both branches have results of the same shapes, and a step's states
have the shapes of those before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from ...sizes.arithmetic import require_least, require_most
from ...sizes.size import AnySize, Size
from ...support.errors import ModelError
from ..emitter import constant, constant_array, dtype_of, shape_of
from ..parts import Part, chosen, refused, repeated
from ..sweeps import swept
from .counted import Counted
from .loop_conditions import holds_before_the_end
from .node_emitter import NodeEmitter
from .operators import Value
from .values import form_of, tensors_of, with_tensors

if TYPE_CHECKING:
    import onnx

    from .graph import Graphs

_logger = logging.getLogger(__name__)

_ENDLESS = (1 << 63) - 1
_EXACT = 1 << 24  # up to which counters may be compared in single precision


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
    """Convert both branches of an ``If`` to functions, of which one is called.

    If one of them cannot be converted, as it is for inputs of another shape, its call is an error.
    """
    made: dict[str, tuple[Part, list[Value]]] = {}
    problems: dict[str, ModelError] = {}
    for name, graph in (("then", then), ("else", otherwise)):
        try:
            made[name] = graphs.part("branch", graph, lambda _: [], [])
        except ModelError as error:
            problems[name] = error
    if not made:
        raise problems["then"]
    results = next(iter(made.values()))[1]
    tensors = tensors_of(tuple(results))
    for name, problem in problems.items():
        _logger.warning("%s fails if it takes its %s branch: %s", emit.where, name, problem)
        text = f"{emit.where} takes its {name} branch, which was not compiled: {problem}"
        types = [tensor.ty for tensor in tensors]
        stub = refused(emit.builder, emit.builder.part_name("branch"), condition, text, types)
        made[name] = stub, results
    forms = [list(map(form_of, outputs)) for _, outputs in made.values()]
    if forms[0] != forms[1]:
        raise emit.error(
            f"chooses between results of different types or shapes{emit.while_running(condition)}."
        )
    name = emit.builder.part_name("choice")
    call = emit(chosen(emit.builder, name, condition, made["then"][0], made["else"][0]))
    return with_tensors(tuple(results), iter(_fields(emit, call, tensors)))


def loop(
    emit: NodeEmitter,
    count: relax.Expr | None,
    condition: relax.Expr,
    states: Sequence[Value],
    graph: onnx.GraphProto,
    graphs: Graphs,
) -> Value:
    """Convert a step of a ``Loop`` to a function, which is called as often as it turns out."""
    tensors = tensors_of(tuple(states))
    number = relax.Var("step", relax.TensorType((), "int64"))
    flag = relax.Var("goes_on", condition.ty)
    inside = [relax.Var(f"state_{i}", tensor.ty) for i, tensor in enumerate(tensors)]
    given = with_tensors(tuple(states), iter(inside))
    assert isinstance(given, tuple), "the states are several"
    made, outputs = graphs.part(
        "step", graph, lambda _: [number, flag, *given], [number, flag, *inside]
    )
    if count is None and _holds(outputs[0], flag):
        raise emit.error("never ends, as it has no number of steps and its condition stays true.")
    kept, results = outputs[1 : len(states) + 1], outputs[len(states) + 1 :]
    if list(map(form_of, kept)) != list(map(form_of, states)):
        raise emit.error("changes the type or the shape of a state, which is not supported.")
    if results:
        steps = None if count is None else emit.known(count)
        always = _holds(outputs[0], flag)
        if not always and steps is not None and isinstance(steps.item(), Size):
            always = _counts(emit, steps.item(), condition, states, graph, graphs)
        if steps is None or (isinstance(steps.item(), Size) and not always):
            raise emit.error(
                "has results of each of its steps, of which it may take any number; give it a "
                "constant as the largest number."
            )
        return _swept(emit, steps.item(), condition, states, made, results, always=always)
    most = constant(np.array(_ENDLESS)) if count is None else count
    name = emit.builder.part_name("loop")
    call = emit(repeated(emit.builder, name, most, condition, tensors, made))
    fields = _fields(emit, call, [number, flag, *tensors])[2:]
    return with_tensors(tuple(states), iter(fields))


def scan(
    emit: NodeEmitter,
    length: AnySize,
    states: Sequence[Value],
    sequences: Sequence[tuple[relax.Expr, int, bool]],
    graph: onnx.GraphProto,
    graphs: Graphs,
) -> tuple[Value, ...]:
    """Convert a step of a ``Scan`` to a function; return the states and the results of all steps.

    Parameters
    ----------
    emit : NodeEmitter
    length : int or Size
        The number of steps.
    states : sequence of Value
    sequences : sequence of (relax.Expr, int, bool)
        What is scanned, the axis of the steps, and whether it is scanned backwards.
    graph : GraphProto
        The step.
    graphs : Graphs

    Returns
    -------
    tuple of Value
        The results have the steps in their first axis.
    """
    tensors = tensors_of(tuple(states))
    number = relax.Var("step", relax.TensorType((), "int64"))
    flag = relax.Var("goes_on", relax.TensorType((), "bool"))
    inside = [relax.Var(f"state_{i}", tensor.ty) for i, tensor in enumerate(tensors)]
    given = with_tensors(tuple(states), iter(inside))
    assert isinstance(given, tuple), "the states are several"

    def parts(read: Callable[[relax.Expr], relax.Expr]) -> list[Value]:
        found = []
        for x, axis, backwards in sequences:
            last = emit.sizes(np.array(length - 1, object), "int64")
            place = emit(relax.op.subtract(last, number)) if backwards else number
            found.append(
                emit(relax.op.take(read(x), place, emit.axis(axis, len(shape_of(x))), "clip"))
            )
        return [*given, *found]

    made, outputs = graphs.part("step", graph, parts, [number, flag, *inside], [flag])
    kept, results = outputs[: len(states)], outputs[len(states) :]
    if list(map(form_of, kept)) != list(map(form_of, states)):
        raise emit.error("changes the type or the shape of a state, which is not supported.")
    return _swept(emit, length, constant(np.array(True)), states, made, results, always=True)


def _swept(
    emit: NodeEmitter,
    steps: AnySize,
    condition: relax.Expr,
    states: Sequence[Value],
    made: Part,
    results: Sequence[Value],
    *,
    always: bool,
) -> tuple[Value, ...]:
    """Return the states after all steps, and the results of the steps.

    Their number is counted unless the condition ``always`` holds.
    """
    if not require_least(steps, 1):
        raise emit.error("has no steps, so that the shapes of its results are not known.")
    if not all(isinstance(result, relax.Expr) for result in results):
        raise emit.error("has results of each step that are no tensors, which is not supported.")
    tensors = tensors_of(tuple(states))
    types = [result.ty for result in results if isinstance(result, relax.Expr)]
    name = emit.builder.part_name("loop")
    call = emit(swept(emit.builder, name, steps, condition, tensors, made, types))
    fields = _fields(emit, call, [condition, condition, *tensors, *results])
    after = with_tensors(tuple(states), iter(fields[2:]))
    assert isinstance(after, tuple), "the states are several"
    stacked: list[Value] = list(fields[2 + len(tensors) :])
    if not always:
        stacked = [Counted(x, fields[0], 0) for x in stacked if isinstance(x, relax.Expr)]
    return (*after, *stacked)


def _holds(result: Value, flag: relax.Var) -> bool:
    """Return whether a condition is true whenever it was true before."""
    if not isinstance(result, relax.Expr):
        return False
    known = constant_array(result)
    return result.same_as(flag) if known is None else bool(known.reshape(-1)[0])


def _counts(
    emit: NodeEmitter,
    count: Size,
    condition: relax.Expr,
    states: Sequence[Value],
    graph: onnx.GraphProto,
    graphs: Graphs,
) -> bool:
    """Return whether a condition is true before each of ``count`` steps."""
    begins = emit.known(condition)
    if begins is None or not bool(begins.reshape(-1)[0]) or not require_most(count, _EXACT):
        return False
    first = dict(zip((value.name for value in graph.input[2:]), states, strict=False))

    def initial(name: str) -> np.ndarray | None:
        value = first[name]
        return emit.known(value) if isinstance(value, relax.Expr) else None

    return holds_before_the_end(graph, count, initial, graphs.known)


def _fields(emit: NodeEmitter, call: relax.Expr, tensors: Sequence[relax.Expr]) -> list[relax.Expr]:
    return [emit(relax.TupleGetItem(call, i)) for i in range(len(tensors))]
