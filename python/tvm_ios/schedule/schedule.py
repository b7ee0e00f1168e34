# SPDX-License-Identifier: Apache-2.0
"""The schedule of a network: an object to inspect, save, edit and apply.

A schedule refers to operators by the names that the extractor gives them (``conv2d_12``) and holds
no TVM IR. It fits every network with the same operators, shapes and connections, whatever the
weights.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..support.errors import ScheduleError
from ..support.files import replacing
from ..support.transaction import settle
from .partitioning import is_partitioning
from .rounding import Rounding
from .speedup import Speedup
from .synchronization import SYNCHRONIZATIONS, Synchronization
from .versions import modernized

FORMAT = "tvm_ios.schedule"
VERSION = 2
_READABLE = (1, 2)


_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""The exceptions that parsing an invalid schedule may raise."""

_MOST_WORKERS = 1 << 16
_MOST_FLOPS = 1 << 80
_TARGET_NAME = re.compile(r"[\w./+-]{1,99}")


@dataclass(frozen=True)
class ScheduledOperator:
    """An operator in a schedule.

    Only its name, kind, time and kernel affect what a schedule is lowered to. The other fields are
    informative, and files of earlier releases lack them.

    Attributes
    ----------
    name, kind : str
        The extractor's name and kind of the operator.
    seconds : float or None
        Its time on one worker, if known.
    reads : tuple of str or None
        The names of the operators whose results it reads; None if that was not recorded.
    outputs : tuple of str
        The types of its results, such as ``float32[1, 64, 55, 55]``.
    flops : int or None
        Floating-point operations; a multiply-add counts as two.
    kernel : str or None
        The kernel that was chosen, if there was a choice.
    lean : str or None
        The kernel that takes less of a CUDA device, for stages whose work partitioning is lean.
    module : str or None
        The module of the model that it is from, such as ``features.3.conv``.
    """

    name: str
    kind: str
    seconds: float | None = None
    reads: tuple[str, ...] | None = None
    outputs: tuple[str, ...] = ()
    flops: int | None = None
    kernel: str | None = None
    lean: str | None = None
    module: str | None = None

    @property
    def title(self) -> str:
        """What tables and pictures call it: its module where that is known, else its name."""
        return self.module or self.name


@dataclass(frozen=True)
class ScheduledStage:
    """A stage of a schedule.

    Attributes
    ----------
    groups : tuple of tuple of str
        The names of the operators, each group in execution order.
    strategy : str
        ``concurrent`` or ``merge``.
    partitioning : str
        The work partitioning. On a CPU: ``tiles`` (every worker computes a part of each operator),
        ``groups`` (one worker computes a whole group) or ``strips`` (row strips: every worker
        computes some rows of the results through the whole group). On a CUDA device: ``streams``
        (one stream per group, or ``streams-N`` for N streams; the longest group is issued first, or
        with the suffix ``-widest`` the one with the most blocks) or ``fused`` (one launch). With
        the suffix ``-lean``, operators have the kernels that take less of the device.
    seconds : float or None
        The stage's latency when it was chosen.
    apart : float or None
        What its operators took then as stages of their own, one after another.
    """

    groups: tuple[tuple[str, ...], ...]
    strategy: str = "concurrent"
    partitioning: str = "tiles"
    seconds: float | None = None
    apart: float | None = None

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(name for group in self.groups for name in group)


drawings: dict[str, Callable[[Schedule], str]] = {}
"""Functions that draw a schedule in a notebook, by MIME type; see :mod:`tvm_ios.draw`."""


@dataclass(frozen=True)
class Schedule:
    """The stages of a network in execution order, and what they were made for.

    Attributes
    ----------
    model : str
        The fingerprint of the operator graph.
    function : str
        The name of the Relax function.
    target : str
        The target as JSON.
    workers : int
        The number of threads.
    operators : tuple of ScheduledOperator
        All operators of the graph.
    stages : tuple of ScheduledStage
        The stages.
    estimates : dict of str to float
        Seconds by the cost model, as sums over stages: ``sequential``, ``greedy``, ``scheduled``.
    measured : dict of str to float
        Seconds of whole compiled models, timed in one run, by the same names; empty if none were
        timed.
    speedup : Speedup or None
        How many times faster the best other schedule ran than the sequential one, as whole models;
        None if that was not measured or could not be told. Unless it is :attr:`Speedup.faster`, the
        search returns the sequential schedule.
    measurements : int
        The number of distinct stages that were measured.
    search_seconds : float
        The duration of the search, including measurements.
    cut_cost : int
        The cut cost: branches and merges that the cuts between blocks remove, see
        :func:`tvm_ios.partition`. At 0, the blocks lose only stages across a single operator.
    partition_gap : float or None
        The partition gap: an upper bound, by the cost model, of the seconds that the best schedule
        of the whole network would save over this one. At 0, the network was searched as a whole.
        None if it has too many schedules to explore.
    search_gap : float or None
        The search gap: an upper bound, by the prices of the search, of the seconds that the best
        schedule with these cuts would save over the one that the search found. At 0, it is proved
        to be optimal. None if nothing is known.
    batch : int or None
        The batch size, if schedules were made for several.
    at_batch : dict of str to float
        Seconds of whole models with the stages found for this batch size, by the batch size at
        which they ran, as a decimal number. Empty if there was one batch size.
    winograd : bool
        Whether convolutions may use Winograd's algorithm. If a file does not say so, they may.
    synchronization : str
        How the workers of a CPU, or the kernels of a GPU, wait for each other, see
        :data:`.synchronization.Synchronization`.
    rounding : Rounding or None
        How far the answers are from those in float32; None if that was not measured.
    parts : dict of str to Schedule
        Those of the branches and of the bodies of loops that are decided while the network runs, by
        the names of their functions.
    """

    model: str
    function: str
    target: str
    workers: int
    operators: tuple[ScheduledOperator, ...]
    stages: tuple[ScheduledStage, ...]
    estimates: dict[str, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    speedup: Speedup | None = None
    measurements: int = 0
    search_seconds: float = 0.0
    cut_cost: int = 0
    partition_gap: float | None = None
    search_gap: float | None = None
    batch: int | None = None
    at_batch: dict[str, float] = field(default_factory=dict)
    winograd: bool = True
    synchronization: Synchronization = "barrier"
    rounding: Rounding | None = None
    parts: dict[str, Schedule] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """What timing the best schedule against the sequential one told; empty if nothing."""
        sequential = all(len(stage.operators) == 1 for stage in self.stages)
        return "" if self.speedup is None else self.speedup.verdict(kept=sequential)

    def lowers_like(self, other: Schedule) -> bool:
        """Return whether both schedules are lowered to the same code.

        That depends on the stages and on the operators' times, on which work partitioning is based.
        """
        forms = [
            (
                [(stage.groups, stage.strategy, stage.partitioning) for stage in schedule.stages],
                [(op.name, op.kind, op.seconds, op.kernel, op.lean) for op in schedule.operators],
                schedule.winograd,
                schedule.synchronization,
            )
            for schedule in (self, other)
        ]
        alike = self.parts.keys() == other.parts.keys() and all(
            part.lowers_like(other.parts[name]) for name, part in self.parts.items()
        )
        return forms[0] == forms[1] and alike

    def to_dict(self) -> dict[str, Any]:
        """Return the schedule as a dictionary of JSON's types."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    def to_json(self) -> str:
        """Return the text that :meth:`save` writes."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    @staticmethod
    def from_dict(data: Any, source: str = "The schedule") -> Schedule:
        """Create a schedule from the result of :meth:`to_dict`.

        Raises
        ------
        ScheduleError
            If ``data`` is not a schedule of this version.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ScheduleError(f"{source} is not a schedule of tvm-ios.")
        if data.get("version") not in _READABLE:
            raise ScheduleError(
                f"{source} has version {data.get('version')!r}; this release reads {VERSION} and "
                "older ones. "
                "Search again to make a new one."
            )
        try:
            return _parse(modernized(data))
        except _DAMAGE as error:
            raise ScheduleError(f"{source} is damaged: {_reason(error)}.") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule as JSON, atomically."""
        try:
            with replacing(path) as (draft,):
                draft.write_text(self.to_json())
        except OSError as error:
            reason = error.strerror
            raise ScheduleError(f"Cannot write the schedule to {path}: {reason}.") from error

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Schedule:
        """Read a schedule that :meth:`save` wrote.

        Raises
        ------
        ScheduleError
            If the file cannot be read, or if it is not a schedule of this version.
        """
        settle(Path(path).resolve().parent)
        try:
            data = json.loads(Path(path).read_text())
        except OSError as error:
            raise ScheduleError(f"Cannot read the schedule {path}: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise ScheduleError(f"{path} is not a schedule of tvm-ios: it is not JSON.") from error
        return Schedule.from_dict(data, str(path))

    def __repr__(self) -> str:
        known = self.measured or self.estimates
        lines = [
            f"Schedule of {len(self.operators)} operators in {len(self.stages)} stages "
            f"for {self.workers} workers"
        ]
        if known:
            parts = [f"{name} {1e3 * s:.3f} ms" for name, s in known.items()]
            lines[0] += ": " + ", ".join(parts)
        if self.verdict:
            lines[0] += f"; {self.verdict}"
        for i, stage in enumerate(self.stages):
            groups = " | ".join(", ".join(group) for group in stage.groups)
            latency = "" if stage.seconds is None else f"{1e6 * stage.seconds:9.1f} us  "
            how = "merge" if stage.strategy == "merge" else stage.partitioning
            lines.append(f"{i:4d}  {latency}{how:6s}  {groups}")
        return "\n".join(lines)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the representations that a notebook can show, by MIME type."""
        return {"text/plain": repr(self), **{m: draw(self) for m, draw in drawings.items()}}


def _parse(data: dict[str, Any]) -> Schedule:
    workers, winograd = data["workers"], data.get("winograd", True)
    if (
        isinstance(workers, bool)
        or not isinstance(workers, int)
        or not 0 < workers <= _MOST_WORKERS
    ):
        raise ValueError("'workers' is not a number of threads")
    if not isinstance(data["operators"], list) or not isinstance(data["stages"], list):
        raise ValueError("'operators' and 'stages' are not lists")
    if not isinstance(winograd, bool):
        raise ValueError("'winograd' is neither true nor false")
    synchronization = data.get("synchronization", "barrier")
    if synchronization not in SYNCHRONIZATIONS:
        raise ValueError(f"'synchronization' is none of {', '.join(SYNCHRONIZATIONS)}")
    stages = tuple(_parse_stage(stage) for stage in data["stages"])
    operators = tuple(map(_parse_operator, data["operators"]))
    return Schedule(
        model=str(data["model"]),
        function=str(data["function"]),
        target=_target(data["target"]),
        workers=workers,
        operators=operators,
        stages=stages,
        estimates={str(k): _seconds(v) or 0.0 for k, v in data.get("estimates", {}).items()},
        measured={str(k): _seconds(v) or 0.0 for k, v in data.get("measured", {}).items()},
        speedup=None if data.get("speedup") is None else Speedup.from_dict(data["speedup"]),
        measurements=int(data.get("measurements", 0)),
        search_seconds=_seconds(data.get("search_seconds")) or 0.0,
        cut_cost=int(data.get("cut_cost", 0)),
        partition_gap=_seconds(data.get("partition_gap")),
        search_gap=_seconds(data.get("search_gap")),
        batch=None if data.get("batch") is None else int(data["batch"]),
        at_batch={str(int(k)): _seconds(v) or 0.0 for k, v in data.get("at_batch", {}).items()},
        winograd=winograd,
        synchronization=synchronization,
        rounding=None if data.get("rounding") is None else Rounding.from_dict(data["rounding"]),
        parts={str(name): _parse(part) for name, part in data.get("parts", {}).items()},
    )


def _target(text: Any) -> str:
    """Return a TVM target that is a name, or JSON that names a kind."""
    if not isinstance(text, str):
        raise ValueError("'target' is not a string")
    named = bool(_TARGET_NAME.fullmatch(text))
    if not named and not (text.startswith("{") and isinstance(json.loads(text).get("kind"), str)):
        raise ValueError("'target' is not a target")
    return text


def _parse_operator(operator: dict[str, Any]) -> ScheduledOperator:
    reads, flops = operator.get("reads"), operator.get("flops")
    return ScheduledOperator(
        str(operator["name"]),
        str(operator["kind"]),
        _seconds(operator.get("seconds")),
        None if reads is None else _texts(reads, "reads"),
        _texts(operator.get("outputs", []), "outputs"),
        None if flops is None else _flops(flops),
        None if operator.get("kernel") is None else str(operator["kernel"]),
        None if operator.get("lean") is None else str(operator["lean"]),
        None if operator.get("module") is None else str(operator["module"]),
    )


def _flops(value: Any) -> int:
    flops = int(value)
    if not 0 <= flops <= _MOST_FLOPS:
        raise ValueError("an operator's 'flops' is not a number of operations")
    return flops


def _texts(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ValueError(f"an operator's {what} are not a list")
    return tuple(map(str, values))


def _parse_stage(stage: dict[str, Any]) -> ScheduledStage:
    strategy, partitioning = stage.get("strategy", "concurrent"), stage.get("partitioning", "tiles")
    if strategy not in ("concurrent", "merge"):
        raise ValueError(f"{strategy!r} is not a strategy")
    if not isinstance(partitioning, str) or not is_partitioning(partitioning):
        raise ValueError(f"{partitioning!r} is not a work partitioning")
    groups = stage["groups"]
    if not isinstance(groups, list) or not all(isinstance(g, list) and g for g in groups):
        raise ValueError("a stage's groups are lists of operators' names")
    if not groups:
        raise ValueError("a stage has no operators")
    named = tuple(tuple(map(str, group)) for group in groups)
    seconds, apart = (_seconds(stage.get(name)) for name in ("seconds", "apart"))
    return ScheduledStage(named, strategy, partitioning, seconds, apart)


def _seconds(value: Any) -> float | None:
    """Return a latency; None if it is unknown."""
    if value is None:
        return None
    seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{value!r} is not a latency")
    return seconds


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error).rstrip(".")
