# SPDX-License-Identifier: Apache-2.0
"""The compiled model: a shared library that describes itself and needs only ``apache-tvm``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import tvm
from tvm import relax

import tvm_ios_runtime
from tvm_ios_runtime.model import FORMAT, METADATA, VERSION, LibraryError, Model

from ..backend.registry import kind_of
from ..schedule.schedule import Schedule
from ..support.errors import ModelError, device_errors
from ..support.libinfo import __version__
from ..support.progress import working
from ..support.transaction import settle
from .empty_constants import allocate_empty_constants


def build(mod: tvm.IRModule, schedule: Schedule, target: tvm.target.Target) -> relax.VMExecutable:
    """Compile a scheduled module, with what its loader needs to know in a function of it.

    Parameters
    ----------
    mod : tvm.IRModule
        What :meth:`tvm_ios.compiler.scheduler.Scheduler.emit` made of ``schedule``.
    """
    # A function that returns a string travels inside the library through any of TVM's loaders.
    text = tvm.ir.StringImm(json.dumps(_describe(mod[schedule.function], schedule, target)))
    described = mod.clone()
    described.update_func(
        tvm.ir.GlobalVar(METADATA),
        relax.Function([], text, relax.AnyType()).with_attr("global_symbol", METADATA),
    )
    with working("compiling the library"):
        return kind_of(target).build(allocate_empty_constants(described), target)


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


def _describe(
    func: relax.Function, schedule: Schedule, target: tvm.target.Target
) -> dict[str, object]:
    outputs = [_info(f"output_{i}", ty) for i, ty in enumerate(_leaves(func.ret_ty))]
    return {
        "format": FORMAT,
        "version": VERSION,
        "tvm_ios": __version__,
        "function": schedule.function,
        "inputs": [_info(p.name, p.ty) for p in func.params],
        "outputs": outputs,
        "target": str(target),
        "workers": schedule.workers,
        "operators": len(schedule.operators),
        "stages": len(schedule.stages),
        "estimates": schedule.estimates,
        "measured": schedule.measured,
        "schedule": schedule.to_dict(),
    }


def _leaves(ty: tvm.ir.Type) -> list[tvm.ir.Type]:
    if isinstance(ty, relax.TupleType):
        return [leaf for field in ty.fields for leaf in _leaves(field)]
    return [ty]


def _info(name: str, ty: tvm.ir.Type) -> dict[str, object]:
    if not isinstance(ty, relax.TensorType):
        raise ModelError(f"{name} is no tensor; only tensors can be inputs and outputs.")
    extents = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else [None] * ty.ndim
    shape = [int(e) if isinstance(e, tvm.tirx.IntImm) else None for e in extents]
    return {"name": name, "shape": shape, "dtype": str(ty.dtype)}
