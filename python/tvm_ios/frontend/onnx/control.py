# SPDX-License-Identifier: Apache-2.0
"""Branches that constants choose, and loops of a known number of steps, which are unrolled.

An operator on each element of a sequence is such a loop. What is not known before the network runs
is left to :mod:`.running`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from ...sizes.arithmetic import is_empty, require_equal
from ...sizes.size import Size, is_open
from ..emitter import constant, constant_array, dtype_of, is_constant, shape_of
from . import running
from .node_emitter import NodeEmitter
from .operators import Value
from .operators.parts import picked
from .running import single

if TYPE_CHECKING:
    import onnx

    from .graph import Graphs

_MOST = 4096
"""Nodes that a loop may be unrolled to."""

_FIRST_WITHOUT_BATCHES = 9
"""The opset in which ``Scan`` became another operator."""


def branch(
    emit: NodeEmitter, node: onnx.NodeProto, inputs: Sequence[Value], graphs: Graphs
) -> Value:
    """Convert the branch of an ``If`` that a constant chooses, or both."""
    condition = single(emit, inputs[0], "bool", "its condition")
    then, otherwise = (_graph(node, f"{name}_branch") for name in ("then", "else"))
    known = _known(condition)
    if known is None:
        return running.branch(emit, condition, then, otherwise, graphs)
    return tuple(graphs.inline(then if known else otherwise)([]))


def loop(emit: NodeEmitter, node: onnx.NodeProto, inputs: Sequence[Value], graphs: Graphs) -> Value:
    """Unroll a ``Loop`` whose number of steps is known; repeat another one while it runs."""
    graph = _graph(node, "body")
    most, condition, *states = [*inputs, None][: max(len(inputs), 2)]
    count = None if most is None else single(emit, most, "int64", "its number of steps")
    goes_on = constant(np.array(True))
    if condition is not None:
        goes_on = single(emit, condition, "bool", "its condition")
    unrolled = _MOST // max(len(graph.node), 1)
    limit = unrolled if count is None else _count(count)
    if limit is None or _known(goes_on) is None or limit > unrolled:
        return running.loop(emit, count, goes_on, states, graph, graphs)
    taken = _unrolled(emit, graph, graphs, limit, goes_on, states)
    if taken is None or (count is None and len(taken) == limit):
        return running.loop(emit, count, goes_on, states, graph, graphs)
    return _results(emit, graph, states, taken)


def _unrolled(
    emit: NodeEmitter,
    graph: onnx.GraphProto,
    graphs: Graphs,
    limit: int,
    goes_on: relax.Expr,
    states: Sequence[Value],
) -> list[list[Value]] | None:
    """Return the outputs of each step; None if their number is not known before they run."""
    step, taken = graphs.inline(graph), list[list[Value]]()
    while len(taken) < limit:
        known = _known(goes_on)
        if known is None:
            return None
        if not known:
            break
        outputs = step([constant(np.array(len(taken))), goes_on, *states])
        goes_on = single(emit, outputs[0], "bool", "its condition")
        states = outputs[1 : len(states) + 1]
        taken.append(outputs)
    return taken


def _results(
    emit: NodeEmitter,
    graph: onnx.GraphProto,
    states: Sequence[Value],
    taken: Sequence[Sequence[Value]],
) -> Value:
    """Return the last states of a loop, and the results of its steps one behind the other."""
    if not taken:
        if len(graph.output) - 1 > len(states):
            raise emit.error("has no steps, so that the shapes of its results are not known.")
        return tuple(states)
    count = len(states) + 1
    stacked = [
        _stacked(emit, parts, 0) for parts in zip(*(step[count:] for step in taken), strict=True)
    ]
    return (*taken[-1][1:count], *stacked)


def _count(number: relax.Expr) -> int | None:
    known = _known(number)
    return None if known is None else int(known)


def scan(emit: NodeEmitter, node: onnx.NodeProto, inputs: Sequence[Value], graphs: Graphs) -> Value:
    """Unroll a ``Scan`` over an axis of some inputs; in opset 8, of each element of a batch."""
    lists = {a.name: list(a.ints) for a in node.attribute}
    if emit.opset >= _FIRST_WITHOUT_BATCHES:
        return _scanned(emit, node, inputs, lists, graphs)
    if inputs[0] is not None:
        raise emit.error("has sequences of lengths of their own, which is not supported.")
    lists["scan_input_directions"] = lists.pop("directions", [0] * _num_scanned(node))
    batches = {shape_of(x)[0] for x in inputs[1:]}
    if len(batches) != 1 or is_empty(batches) or is_open(batches):
        raise emit.error(
            f"has batches of the sizes {[*batches]}; it needs one that is not 0, and not open."
        )
    (batch,) = batches
    _check_size(emit, _graph(node, "body"), batch * shape_of(inputs[-1])[1])
    results = [
        _scanned(emit, node, [picked(emit, x, number, 0) for x in inputs[1:]], lists, graphs)
        for number in range(batch)
    ]
    return tuple(_stacked(emit, parts, 0) for parts in zip(*results, strict=True))


def _num_scanned(node: onnx.NodeProto) -> int:
    return int(next(a.i for a in node.attribute if a.name == "num_scan_inputs"))


def _scanned(
    emit: NodeEmitter,
    node: onnx.NodeProto,
    inputs: Sequence[Value],
    lists: Mapping[str, list[int]],
    graphs: Graphs,
) -> tuple[Value, ...]:
    """Return the last states and the results of a ``Scan``, whose attributes are lists."""
    graph, scanned = _graph(node, "body"), _num_scanned(node)
    states, sequences = list(inputs[: len(inputs) - scanned]), list(inputs[-scanned:])
    num_results = len(graph.output) - len(states)

    def listed(name: str, count: int) -> list[int]:
        return lists.get(name) or [0] * count

    axes = listed("scan_input_axes", scanned)
    backwards = listed("scan_input_directions", scanned)
    lengths = [shape_of(x)[axis] for x, axis in zip(sequences, axes, strict=True)]
    if not all(require_equal(lengths[0], other) for other in lengths):
        raise emit.error(f"has sequences of the lengths {lengths}, which must be the same.")
    length = lengths[0]
    if is_empty([length]):
        raise emit.error("has sequences without elements, which is not supported.")
    walked = [*zip(sequences, axes, map(bool, backwards), strict=True)]
    if isinstance(length, Size) or length * max(len(graph.node), 1) > _MOST:
        outputs = running.scan(emit, length, states, walked, graph, graphs)
    else:
        outputs = _unrolled_scan(emit, length, states, walked, graphs.inline(graph))
    turned = []
    for result, axis, back in zip(
        outputs[len(states) :],
        listed("scan_output_axes", num_results),
        listed("scan_output_directions", num_results),
        strict=True,
    ):
        assert isinstance(result, relax.Expr), "the results of steps are tensors"
        ahead = emit(relax.op.flip(result, 0)) if back else result
        order = [*range(1, len(shape_of(ahead)))]
        order.insert(emit.axis(axis, len(shape_of(ahead))), 0)
        turned.append(emit.transpose(ahead, order))
    return (*outputs[: len(states)], *turned)


def _unrolled_scan(
    emit: NodeEmitter,
    length: int,
    states: Sequence[Value],
    sequences: Sequence[tuple[relax.Expr, int, bool]],
    step: Callable[[Sequence[Value]], list[Value]],
) -> tuple[Value, ...]:
    """Return the last states, and the results of all steps in a first axis."""
    results = []
    for number in range(length):
        parts = [
            picked(emit, x, length - 1 - number if back else number, axis)
            for x, axis, back in sequences
        ]
        outputs = step([*states, *parts])
        states = outputs[: len(states)]
        results.append(outputs[len(states) :])
    return (*states, *(_stacked(emit, parts, 0) for parts in zip(*results, strict=True)))


def sequence_map(
    emit: NodeEmitter, node: onnx.NodeProto, inputs: Sequence[Value], graphs: Graphs
) -> Value:
    """Convert the body once for each element of the sequences; tensors are the same for each."""
    sequences = [value for value in inputs if isinstance(value, tuple)]
    lengths = {len(sequence) for sequence in sequences}
    if len(lengths) != 1 or not isinstance(inputs[0], tuple):
        raise emit.error(
            f"has sequences of the lengths {sorted(lengths)}; it needs one, or some of one length."
        )
    graph = _graph(node, "body")
    _check_size(emit, graph, len(inputs[0]))
    step = graphs.inline(graph)
    results = [
        step([value[place] if isinstance(value, tuple) else value for value in inputs])
        for place in range(len(inputs[0]))
    ]
    return tuple(tuple(result[i] for result in results) for i in range(len(graph.output)))


Control = Callable[[NodeEmitter, "onnx.NodeProto", Sequence[Value], "Graphs"], Value]

CONTROL: dict[str, Control] = {
    "If": branch,
    "Loop": loop,
    "Scan": scan,
    "SequenceMap": sequence_map,
}
"""The operators that have graphs, by name."""


def _graph(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in node.attribute if a.name == name)


def _known(value: Value) -> np.ndarray | None:
    is_known = isinstance(value, relax.Expr) and is_constant(value)
    return constant_array(value) if is_known else None


def _check_size(emit: NodeEmitter, graph: onnx.GraphProto, steps: int) -> None:
    """Raise ModelError for a loop that is too long to be unrolled."""
    count = steps * max(len(graph.node), 1)
    if count > _MOST:
        raise emit.error(
            f"has {steps} or more steps of {len(graph.node)} operators, above the {_MOST} that are "
            "unrolled."
        )


def _stacked(emit: NodeEmitter, parts: Sequence[Value], axis: int) -> relax.Expr:
    tensors = [part for part in parts if isinstance(part, relax.Expr)]
    place = emit.axis(axis, len(shape_of(tensors[0])) + 1)
    if all(map(is_constant, tensors)):
        emit.allocate([len(tensors), *shape_of(tensors[0])], dtype_of(tensors[0]))
        return constant(np.stack([emit.array(x, "its results") for x in tensors], place))
    return emit(relax.op.stack(tensors, place))
