# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels that the user has tuned with TVM's MetaSchedule.

A record refers to a TIR function, and the functions of a network's operators depend on the layouts
on the device. Tune the functions that :func:`functions_to_tune` returns::

    tasks = functions_to_tune(mod)
    database = meta_schedule.tune_tir(tasks, target, work_dir, ...)
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ....graph.extract import extract
from ....graph.prepare import prepare
from ...shared.no_rule import NoRule
from .function import operator_function
from .inplace import place_concatenations
from .layouts import channels_last_values


def functions_to_tune(mod: tvm.IRModule, function: str = "main") -> tvm.IRModule:
    """Return the functions of a network's operators, each once, by the first operator's name.

    Parameters
    ----------
    mod : tvm.IRModule
        A high-level Relax module.
    function : str
        Name of the function.

    Returns
    -------
    tvm.IRModule
        The TIR functions to tune.

    Raises
    ------
    ModelError
        If the function cannot be scheduled.
    """
    prepared = prepare(mod, function, checks_indices=False)
    graph = extract(prepared, function)
    layouts = channels_last_values(graph)
    results = relax.analysis.free_vars(prepared[function].body.body)
    slots = place_concatenations(graph, layouts, results)
    found: dict[tvm_ffi.StructuralKey, tuple[str, tirx.PrimFunc]] = {}
    for op in graph.operators:
        with suppress(NoRule):  # operators left to TVM have no TIR yet
            body, _ = operator_function(op, layouts, slots)
            found.setdefault(tvm_ffi.StructuralKey(body), (op.name, body))
    return tvm.IRModule(
        {name: body.with_attr("global_symbol", name) for name, body in found.values()}
    )


def tuned_function(
    function: tirx.PrimFunc, database: Any | None, target: tvm.target.Target
) -> tirx.PrimFunc | None:
    """Return a database's fastest schedule of an operator's function, None if it has none.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        The operator's function.
    database : tvm.s_tir.meta_schedule.database.Database or None
        The tuning records.
    target : tvm.target.Target
        The target of the records.

    Returns
    -------
    tvm.tirx.PrimFunc or None
        The scheduled function.
    """
    if database is None:
        return None
    found = database.query_ir_module(tvm.IRModule({"main": function}), target, "main")
    return None if found is None else found["main"].with_attr("tirx.is_scheduled", True)
