# SPDX-License-Identifier: Apache-2.0
"""Kernels that the user has tuned with TVM's MetaSchedule.

MetaSchedule's records refer to TIR functions as TVM's own fusion forms them. An operator whose
function has a record uses the recorded kernel, even if a rule covers it: the record is measured,
and the user asked for it. Tune the module that :func:`~tvm_ios.rewrite.prepare.prepare` returns,
because the operators are formed from that module::

    with target:
        tasks = relax.get_pipeline("zero")(prepare(mod))
        database = meta_schedule.relax_integration.tune_relax(tasks, {}, target, ...)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm import relax, tirx

from ....graph.operators import Operator
from ....lowering.legalize import tir_of
from ....lowering.no_rule import NoRule
from ....support.errors import OptionError
from ..kernels.generic import scheduled_kernel
from ..kernels.layout import PLAIN
from .base import Choice
from .bindings import InputBinder, plain_inputs

_FILES = ("database_workload.json", "database_tuning_record.json")


def check_database(directory: str) -> None:
    """Raise OptionError unless ``directory`` holds a database that MetaSchedule wrote."""
    missing = [name for name in _FILES if not (Path(directory) / name).is_file()]
    if missing:
        raise OptionError(
            f"{directory} is not a MetaSchedule database: {missing[0]} is missing; give the "
            "work_dir of a tuning run."
        )


def open_database(directory: str) -> Any:
    """Open the database that MetaSchedule wrote into ``directory``; enter it by ``with``.

    Raises
    ------
    OptionError
        If it cannot be read, or a package that MetaSchedule needs is not installed.
    """
    try:
        from tvm.s_tir.meta_schedule.database import JSONDatabase

        return JSONDatabase(*(str(Path(directory) / name) for name in _FILES))
    except ImportError as error:
        raise OptionError(
            f"Reading tuning records needs {error.name}; pip install psutil cloudpickle."
        ) from error
    except Exception as error:
        raise OptionError(f"{directory} is damaged: TVM cannot read its records.") from error


def tuned(op: Operator, binder: InputBinder, database: Any) -> Choice:
    """Return the kernel that ``database`` holds for an operator; its tensors are row-major.

    Parameters
    ----------
    op : Operator
        The operator.
    binder : InputBinder
        Makes the input bindings.
    database : tvm.s_tir.meta_schedule.database.Database
        The tuning records.

    Returns
    -------
    Choice
        The recorded kernel.

    Raises
    ------
    NoRule
        If the database has no record of the operator.
    """
    legalized = tir_of(op)
    if legalized.opened:
        raise NoRule
    bindings = plain_inputs(binder, legalized.values)
    scheduled = _look_up(legalized.function, database)
    try:
        kernel = scheduled_kernel(op.kind, scheduled, len(bindings))
    except tvm.error.InternalError as error:  # 64-bit integers: TVM cannot narrow the indices
        raise NoRule from error
    return Choice(kernel, bindings, PLAIN)


def _look_up(function: tirx.PrimFunc, database: Any) -> tirx.PrimFunc:
    """Return the best schedule of a function.

    TVM annotates functions that it did not fuse with a pattern, so both forms are looked up.
    """
    alone = tvm.IRModule({"main": function})
    for mod in (alone, relax.transform.AnnotateTIROpPattern()(alone)):
        with database, tvm.target.Target("llvm"):
            found = relax.transform.MetaScheduleApplyDatabase()(mod)["main"]
        if found.attrs is not None and found.attrs.get("tirx.is_scheduled"):
            return found
    raise NoRule
