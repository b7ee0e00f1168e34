# SPDX-License-Identifier: Apache-2.0
"""The compiled model: a shared library that describes itself and needs only ``apache-tvm``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

import tvm_ios_runtime
from tvm_ios_runtime.model import FORMAT, METADATA, VERSION, Model
from tvm_ios_runtime.opening import LibraryError

from ..backend.base import AnyKind
from ..backend.cpu.code.direct import direct_call
from ..backend.registry import kind_of
from ..ops.narrow import types_of
from ..relax_ir.lengths import lengths_of
from ..schedule.schedule import Schedule
from ..sizes.expressions import text_of
from ..support.errors import ModelError, device_errors
from ..support.libinfo import __version__
from ..support.progress import working
from ..support.transaction import settle
from .empty_constants import allocate_empty_constants


@dataclass(frozen=True)
class Requests:
    """How to call a library when many requests wait.

    Attributes
    ----------
    callers : int
        Threads that call at the same time.
    batch : int
        Samples of a call.
    """

    callers: int
    batch: int


@dataclass(frozen=True)
class Serving:
    """How a library serves other shapes, and many requests; see :mod:`tvm_ios_runtime.dispatch`.

    Attributes
    ----------
    seconds : sequence of float
        The duration of a call of each function; empty if that was not measured.
    splits : bool
        Whether the batch may be split and padded.
    pads : sequence of int
        The axes that may be padded with zeros.
    requests : Requests, optional
        How many requests are served fastest, if that was measured.
    """

    seconds: Sequence[float] = ()
    splits: bool = False
    pads: Sequence[int] = ()
    requests: Requests | None = None

    def describe(self) -> str:
        """Return what is served besides the shapes that there are functions for."""
        if not self.seconds:
            return "none, as the library was not run here"
        served = ["a batch is split and padded"] if self.splits else []
        served += ["a smaller size is padded to a larger one"] if self.pads else []
        return "; ".join(served) or "none, as they were not found to get the same answers"


def build(
    mod: tvm.IRModule, schedule: Schedule, kind: AnyKind, target: tvm.target.Target
) -> relax.VMExecutable:
    """Compile a scheduled module, with what its loader needs to know in a function of it.

    Parameters
    ----------
    mod : tvm.IRModule
        What :meth:`tvm_ios.compiler.scheduler.Scheduler.emit` made of ``schedule``.
    schedule : Schedule
    kind : TargetKind
        The kind of the target.
    target : tvm.target.Target
    """
    signature = _signature(mod, schedule.function, schedule, kind)
    return _build(mod, _describe(signature, schedule, target), kind, target)


def build_signatures(
    mod: tvm.IRModule,
    schedules: Mapping[str, Schedule],
    kind: AnyKind,
    target: tvm.target.Target,
    serving: Serving,
) -> relax.VMExecutable:
    """Compile a module that has a function for each of several shapes.

    Parameters
    ----------
    mod : tvm.IRModule
        What :func:`tvm_ios.compiler.dispatcher.with_dispatcher` made.
    schedules : mapping of str to Schedule
        By the names of the functions that have static shapes.
    kind : TargetKind
        The kind of the target.
    target : tvm.target.Target
    serving : Serving
        How other shapes are served.
    """
    signatures = [_signature(mod, name, schedule, kind) for name, schedule in schedules.items()]
    for signature, seconds in zip(signatures, serving.seconds, strict=bool(serving.seconds)):
        signature["seconds"] = seconds
    first = next(iter(schedules.values()))
    of_any_shape = {key: _common([s[key] for s in signatures]) for key in ("inputs", "outputs")}
    metadata = {
        **_describe(signatures[0], first, target),
        **of_any_shape,
        "function": first.function,
        "signatures": signatures,
        "splits": serving.splits,
        "pads": list(serving.pads),
    }
    if serving.requests is not None:
        metadata["requests"] = asdict(serving.requests)
    metadata.pop("direct", None)  # each signature has its own
    return _build(mod, metadata, kind, target)


def _common(tensors: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return descriptions of tensors with the sizes that all signatures have in common."""
    return [
        {
            **infos[-1],
            "shape": [_only(sizes) for sizes in zip(*(i["shape"] for i in infos), strict=True)],
        }
        for infos in zip(*tensors, strict=True)
    ]


def _only(sizes: Sequence[int]) -> int | None:
    return sizes[0] if len(set(sizes)) == 1 else None


def _build(
    mod: tvm.IRModule, metadata: Mapping[str, object], kind: AnyKind, target: tvm.target.Target
) -> relax.VMExecutable:
    # A function that returns a string travels inside the library through any of TVM's loaders.
    text = tvm.ir.StringImm(json.dumps(metadata))
    described = mod.clone()
    described.update_func(
        tvm.ir.GlobalVar(METADATA),
        relax.Function([], text, relax.AnyType()).with_attr("global_symbol", METADATA),
    )
    with working("compiling the library"):
        return kind.build(allocate_empty_constants(described), target)


def load(path: str | os.PathLike[str], device_id: int = 0) -> Model:
    """Load a library that was compiled from what :func:`build` made.

    Parameters
    ----------
    path : path
    device_id : int
        Which GPU runs it, if it was compiled for one.

    Raises
    ------
    ModelError
        When it is no such library, or for a GPU that this machine does not have.
    TargetError
        When it is for another CPU.
    OptionError
        When it is for a CPU, and a GPU is named.
    DeviceError
        When the GPU fails, has too little memory, or is another process's alone.
    """
    settle(Path(path).resolve().parent)
    try:
        with device_errors(device_id):
            model = tvm_ios_runtime.load(path, device_id)
    except (LibraryError, ImportError) as error:
        raise ModelError(str(error)) from error
    target = tvm.target.Target(model.metadata["target"])
    kind_of(target).check_loaded(target, device_id)
    return model


def schedules_of(model: Model, source: str) -> tuple[Schedule, ...]:
    """Return the schedules of a library's functions; errors name the ``source``."""
    described = model.metadata.get("signatures", [model.metadata])
    return tuple(Schedule.from_dict(each["schedule"], source) for each in described)


def _describe(
    signature: Mapping[str, object], schedule: Schedule, target: tvm.target.Target
) -> dict[str, object]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "tvm_ios": __version__,
        "target": str(target),
        "workers": schedule.workers,
        **signature,
    }


def _signature(mod: tvm.IRModule, name: str, schedule: Schedule, kind: AnyKind) -> dict[str, Any]:
    """Describe a function, the schedule that it runs, and the driver if it does not do more."""
    func = mod[name]
    inputs = [_info(p.name, p.ty) for p in func.params]
    outputs = [_info(f"output_{i}", ty) for i, ty in enumerate(leaves(func.ret_ty))]
    for tensors, types in zip((inputs, outputs), types_of(func), strict=True):
        for place, dtype in types.items():
            tensors[place]["dtype"] = dtype
    described = {
        "function": name,
        "inputs": inputs,
        "outputs": outputs,
        "operators": len(schedule.operators),
        "stages": len(schedule.stages),
        "estimates": schedule.estimates,
        "measured": schedule.measured,
        "schedule": schedule.to_dict(),
    }
    if lengths_of(func):
        described["lengths"] = lengths_of(func)
    direct = direct_call(func) if kind.device == "cpu" else None
    if direct is not None:
        described["direct"] = direct
    return described


def leaves(ty: tvm.ir.Type) -> list[tvm.ir.Type]:
    """Return the types of nested tuples, in order."""
    if isinstance(ty, relax.TupleType):
        return [leaf for field in ty.fields for leaf in leaves(field)]
    return [ty]


def _info(name: str, ty: tvm.ir.Type) -> dict[str, Any]:
    if not isinstance(ty, relax.TensorType):
        raise ModelError(f"{name} is no tensor; only tensors can be inputs and outputs.")
    extents = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else [None] * ty.ndim
    shape = [int(e) if isinstance(e, tvm.tirx.IntImm) else None for e in extents]
    info: dict[str, Any] = {"name": name, "shape": shape, "dtype": str(ty.dtype)}
    if None in shape and isinstance(ty.shape, relax.ShapeExpr):
        info["dimensions"] = list(map(text_of, extents))
    return info
