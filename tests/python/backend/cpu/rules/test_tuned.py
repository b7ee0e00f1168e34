# SPDX-License-Identifier: Apache-2.0
"""Kernels out of a MetaSchedule database take the place of the rules'."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from tvm import relax, s_tir

from support.networks import (
    NATIVE,
    assert_close,
    check_scheduled,
    compile_plain,
    constant,
    conv,
    random_arguments,
    relax_module,
    run_kernel,
    run_vm,
)
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.rules import LoweringConfig
from tvm_ios.backend.cpu.rules.implement import implement
from tvm_ios.graph.extract import extract
from tvm_ios.lowering.implementation import Implementation
from tvm_ios.lowering.tuned import active_database
from tvm_ios.rewrite.prepare import prepare

ms = pytest.importorskip("tvm.s_tir.meta_schedule")  # needs psutil and cloudpickle
op = relax.op


def network(emit, x):
    """A convolution and a product, fused with what follows them, and two operators on their own."""
    value = emit(op.add(emit(conv(x, 8)), constant(1, 8, 1, 1)))
    rows = emit(op.reshape(emit(op.nn.relu(value)), (12, 24)))
    product = emit(op.add(rows, emit(op.matmul(rows, constant(24, 24)))))
    return emit(op.nn.softmax(product, axis=-1))


MODULE = relax_module(network, (1, 6, 6, 6))


def schedule_convolution(sch) -> None:
    """Rows of a channel in parallel, each with a part of the padded image to itself."""
    sch.compute_inline(sch.get_sblock("T_add"))
    result = sch.get_sblock("compute")
    *outer, row, column = sch.get_loops(result)
    tile = sch.fuse(*outer, row)
    sch.parallel(tile)
    sch.vectorize(column)
    sch.compute_at(sch.get_sblock("conv2d_nchw"), tile)
    sch.compute_at(sch.get_sblock("pad_temp"), tile)
    sch.annotate(tile, "pragma_auto_unroll_max_step", 64)
    sch.annotate(tile, "pragma_unroll_explicit", 1)


def schedule_product(sch) -> None:
    """Columns in parallel within a serial loop over the rows: no tiles."""
    rows, columns, depth = sch.get_loops(sch.get_sblock("matmul"))
    sch.parallel(columns)
    sch.unroll(depth)
    sch.annotate(rows, "pragma_auto_unroll_max_step", 4)


SCHEDULES = {
    "fused_conv2d_add_relu": schedule_convolution,
    "fused_matmul_add1": schedule_product,
    "reshape": lambda sch: sch.parallel(sch.get_loops(sch.get_sblock("T_reshape"))[0]),
    "softmax": lambda sch: sch.parallel(sch.get_loops(sch.get_sblock("T_softmax_exp"))[0]),
}


@pytest.fixture(scope="module")
def database():
    """A record for each operator of ``MODULE``, as tuning would write it."""
    with NATIVE:
        fused = relax.get_pipeline("zero")(prepare(MODULE))
    result = ms.database.MemoryDatabase()
    for task in ms.relax_integration.extract_tasks(fused, NATIVE, {}):
        (workload,) = task.dispatched
        schedule = s_tir.Schedule(workload)
        SCHEDULES[task.task_name](schedule)
        stored = result.commit_workload(workload)
        record = ms.database.TuningRecord(schedule.trace, stored, [1.0], NATIVE)
        result.commit_tuning_record(record)
    return result


def implementations(database) -> list[Implementation]:
    prepared = prepare(MODULE)
    graph = extract(prepared)
    results = relax.analysis.free_vars(prepared["main"].body.body)
    config = LoweringConfig(core_of(NATIVE), database=database)
    return list(implement(graph, results, config).implementations)


def test_records_are_found(database) -> None:
    chosen = implementations(database)
    tiles = [[phase.num_tiles for phase in i.kernel.phases] for i in chosen]
    assert tiles == [[8 * 6], [12], [1, 1], [1, 12, 1, 1]]
    assert all("scheduled" not in str(i.kernel.key) for i in implementations(None))
    empty = implementations(ms.database.MemoryDatabase())
    assert [i.kernel.key for i in empty] == [i.kernel.key for i in implementations(None)]


def test_tiles_are_independent(database) -> None:
    """Each kernel computes what the rule's does, in pieces, out of order, from poisoned memory."""
    random = np.random.default_rng(0)
    for chosen in implementations(database):
        inputs = [
            value
            if isinstance(value, np.ndarray)
            else random.standard_normal(spec.shape).astype("float32")
            for value, spec in zip(chosen.inputs, chosen.kernel.inputs, strict=True)
        ]
        once = run_kernel(chosen.kernel, inputs, NATIVE, seed=1)
        again = run_kernel(chosen.kernel, inputs, NATIVE, seed=2)
        for first, second in zip(once, again, strict=True):
            assert_close(first, second, 1e-6)


def test_a_network_is_compiled_with_the_active_database(database) -> None:
    assert active_database() is None
    with database:
        assert active_database() is not None
        scheduled = check_scheduled(MODULE)
    arguments = random_arguments(MODULE)
    (expected,) = run_vm(compile_plain(MODULE), arguments)
    (actual,) = run_vm(compile_plain(scheduled), arguments)
    assert_close(actual, expected)


def test_operators_without_a_rule_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tvm_ios"):
        mod = relax_module(lambda emit, x: emit(op.tile(emit(op.nn.relu(x)), (2, 1))), (3, 4))
        check_scheduled(mod)
    assert "operator tile_1 (tile) has no rule: TVM's own lowering" in caplog.text
