# SPDX-License-Identifier: Apache-2.0
"""Kernels of a CUDA device that the user has tuned with TVM's MetaSchedule.

A record is of a TIR function, and those of a network's operators have the layouts that they have on
the device: tune the functions of :func:`functions_to_tune`.

    tasks = functions_to_tune(mod)
    database = meta_schedule.tune_tir(tasks, target, work_dir, ...)
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....graph.extract import extract
from ....graph.prepare import prepare
from ...shared.no_rule import NoRule
from .function import operator_function
from .layouts import channels_last_values


def functions_to_tune(mod: tvm.IRModule, function: str = "main") -> tvm.IRModule:
    """The functions of a network's operators, each once, by the name of the first that has it.

    Parameters
    ----------
    mod : tvm.IRModule
        A high-level Relax module.
    function : str

    Raises
    ------
    ModelError
        When the function cannot be scheduled.
    """
    graph = extract(prepare(mod, function, checks_indices=False), function)
    layouts = channels_last_values(graph)
    found: dict[tvm_ffi.StructuralKey, tuple[str, tirx.PrimFunc]] = {}
    for op in graph.operators:
        with suppress(NoRule):  # what stays as TVM wrote it is not TIR yet
            body, _ = operator_function(op, layouts)
            found.setdefault(tvm_ffi.StructuralKey(body), (op.name, body))
    return tvm.IRModule(
        {name: body.with_attr("global_symbol", name) for name, body in found.values()}
    )


def tuned_function(
    function: tirx.PrimFunc, database: Any | None, target: tvm.target.Target
) -> tirx.PrimFunc | None:
    """The fastest schedule that a database has of an operator's function; None for none."""
    if database is None:
        return None
    found = database.query_ir_module(tvm.IRModule({"main": function}), target, "main")
    return None if found is None else found["main"].with_attr("tirx.is_scheduled", True)
