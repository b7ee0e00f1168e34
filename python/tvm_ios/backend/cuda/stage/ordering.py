# SPDX-License-Identifier: Apache-2.0
"""The order of launches: streams, waits for what is read, and memory that may be used again.

A captured graph has an edge wherever one launch follows another on a stream or waits for it. With
these edges and no others, a launch begins when its operands are there, whatever stage they are
from. Memory is used again only by launches that follow all users of what lies there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import relax

from ....lowering.inplace import Slots, holder
from ....lowering.stages import Stage
from ....lowering.value import Value
from ....ops.tensor import TensorSpec
from ....schedule.synchronization import Synchronization
from ..rules.inplace import bytes_of
from .stage import CudaStage, Launch

_MOST_STREAMS = 32  # of a graph; further launches follow others that they need not wait for
_ALIGNMENT = 256  # bytes, as CUDA aligns what it allocates


@dataclass(frozen=True)
class Order:
    """The order of launches.

    Attributes
    ----------
    streams : tuple of int
        The stream of each launch.
    waits : tuple of tuple of int
        The earlier launches, on other streams, that each one waits for.
    before : tuple of int
        For each launch the set of all that have ended when it begins, as bits.
    """

    streams: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]


def joined(
    stages: Sequence[CudaStage], synchronization: Synchronization, slots: Slots
) -> tuple[CudaStage, tuple[int, ...]]:
    """Return consecutive stages as one, and what has ended before each launch, see :class:`Order`.

    Parameters
    ----------
    stages : sequence of CudaStage
        The stages.
    synchronization : Synchronization
        Whether a launch waits for what it reads, or for all stages before its own.
    slots : mapping of relax.Var to Slot
        Values that are parts of others.
    """
    launches = [launch for stage in stages for launch in stage.launches]
    exact = synchronization == "point-to-point"
    order = order_of(launches, slots) if exact else barriers_of(stages)
    implementations = tuple(i for stage in stages for i in stage.implementations)
    whole = Stage(implementations, (0,) * len(implementations), ((),) * len(implementations))
    placed = [
        replace(launch, stream=stream, waits=waits)
        for launch, stream, waits in zip(launches, order.streams, order.waits, strict=True)
    ]
    return CudaStage.of(whole, placed), order.before


def order_of(launches: Sequence[Launch], slots: Slots) -> Order:
    """Return the order in which each launch waits for those that compute what it reads.

    A launch takes the stream of the last of them if nothing else has followed there, otherwise
    any stream whose launches it follows anyway, otherwise a new one.
    """
    written: dict[object, list[tuple[int, range]]] = {}
    streams: list[int] = []
    waits: list[tuple[int, ...]] = []
    before: list[int] = []
    last: list[int] = []  # the last launch of each stream
    for number, launch in enumerate(launches):
        read = {n for v in launch.inputs for n in _writers(v, written, slots)}
        ended = _together(read, before)
        stream = _stream(read, ended, last)
        own = _together({last[stream]}, before) if stream < len(last) else 0
        waited, covered = [], own
        for producer in sorted(read, reverse=True):
            if not covered >> producer & 1:
                waited.append(producer)
                covered |= _together({producer}, before)
        streams.append(stream)
        waits.append(tuple(sorted(waited)))
        before.append(covered)
        last[stream : stream + 1] = [number]
        for value in launch.outputs:
            written.setdefault(holder(value, slots), []).append((number, bytes_of(value, slots)))
    return Order(tuple(streams), tuple(waits), tuple(before))


def _writers(
    value: Value, written: Mapping[object, Sequence[tuple[int, range]]], slots: Slots
) -> Iterator[int]:
    """Yield the launches that have written some of a value."""
    if not isinstance(value, relax.Var):
        return
    own = bytes_of(value, slots)
    for number, theirs in written.get(holder(value, slots), ()):
        if own.start < theirs.stop and theirs.start < own.stop:
            yield number


def barriers_of(stages: Sequence[CudaStage]) -> Order:
    """Return the order in which every launch waits for all of the stages before its own."""
    streams: list[int] = []
    waits: list[tuple[int, ...]] = []
    before: list[int] = []
    ended = 0  # the launches of earlier stages
    ends: dict[int, int] = {}  # the last launch of each stream of the stage before
    for stage in stages:
        own: dict[int, int] = {}
        for launch in stage.launches:
            number, stream = len(streams), launch.stream
            first = stream not in own
            waits.append(tuple(n for s, n in ends.items() if first and s != stream))
            before.append(ended if first else before[own[stream]] | 1 << own[stream])
            streams.append(stream)
            own[stream] = number
        if own:
            ended, ends = (1 << len(streams)) - 1, own
    return Order(tuple(streams), tuple(waits), tuple(before))


def _together(launches: Collection[int], before: Sequence[int]) -> int:
    """Return the launches and all that have ended before them, as bits."""
    found = 0
    for launch in launches:
        found |= before[launch] | 1 << launch
    return found


def _stream(read: Collection[int], ended: int, last: Sequence[int]) -> int:
    """Return the stream of a launch, given the launches that it waits for and the streams' last."""
    producers = [(launch, stream) for stream, launch in enumerate(last) if launch in read]
    if producers:
        return max(producers)[1]
    followed = [(launch, stream) for stream, launch in enumerate(last) if ended >> launch & 1]
    if followed:
        return max(followed)[1]
    if len(last) < _MOST_STREAMS:
        return len(last)
    return min(range(len(last)), key=lambda stream: last[stream])


def workspace_of(
    launches: Sequence[Launch],
    elsewhere: Collection[object],
    before: Sequence[int],
    slots: Slots,
) -> tuple[dict[object, tuple[int, TensorSpec]], int]:
    """Return the place of each tensor that only the launches use, and the bytes of them together.

    Parameters
    ----------
    launches : sequence of Launch
        In order.
    elsewhere : collection of holders
        Values that have memory of their own.
    before : sequence of int
        For each launch the set of all that have ended when it begins, as bits.
    slots : mapping of relax.Var to Slot
        Values that are parts of others, each computed by launches of its own.

    Returns
    -------
    (dict, int)
        Byte offset and spec by the value's holder, or by the launch and the number of its
        scratch memory; and the size of the workspace.
    """
    users: dict[object, int] = {}
    free: dict[object, int] = {}  # the launches that have ended before any of a tensor's begins
    for number, launch in enumerate(launches):
        for value in (*launch.inputs, *launch.outputs):
            key = holder(value, slots)
            users[key] = users.get(key, 0) | 1 << number
        for value in launch.outputs:
            key, done = holder(value, slots), before[number]
            free[key] = free.get(key, done) & done
    placed: list[tuple[int, int, int]] = []  # begin, end, and users of what lies there
    found: dict[object, tuple[int, TensorSpec]] = {}
    for number, launch in enumerate(launches):
        outputs = zip(launch.outputs, launch.kernel.outputs, strict=True)
        scratch = (((number, i), spec) for i, spec in enumerate(launch.kernel.scratch))
        for key, spec in (*((holder(v, slots), spec) for v, spec in outputs), *scratch):
            if key in elsewhere or key in found:
                continue
            done = free.get(key, before[number])
            offset = _first_gap(spec.num_bytes, [p for p in placed if p[2] & ~done])
            placed.append((offset, offset + spec.num_bytes, users.get(key, 1 << number)))
            found[key] = (offset, spec)
    return found, max((end for _, end, _ in placed), default=0)


def _first_gap(num_bytes: int, taken: Collection[tuple[int, int, int]]) -> int:
    """Return the first aligned offset of so many bytes that nothing overlaps."""
    offset = 0
    for begin, end, _ in sorted(taken):
        if offset + num_bytes <= begin:
            break
        offset = max(offset, -(-end // _ALIGNMENT) * _ALIGNMENT)
    return offset
