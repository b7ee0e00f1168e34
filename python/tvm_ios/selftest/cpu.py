# SPDX-License-Identifier: Apache-2.0
"""The checks of a self-test on a CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

import numpy as np
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from tvm_ios_env.machine import this_cpu

from ..backend.cpu.core import check_runnable, core_of
from ..backend.cpu.measure.peak_flops import on_each_worker
from ..compiler.scheduler import Scheduler
from ..schedule.options import Options
from ..schedule.rounding import BF16, rounds
from ..support.threads import with_num_threads
from ..target import num_workers, resolve
from . import networks
from .cases import CASES, CPU_CASES, Case
from .checks import Check, Group, KernelFault, Settings
from .networks import TestedSchedules, check_library
from .reference import EXACT, TOLERANCE, compare, reference

_LANE_BITS = 32
_RUNS = 2  # one must not affect the next
_EXPONENTIALS = 2.0**-8  # the error of an attention whose exponentials are rounded to 8 bits


def plan(settings: Settings) -> list[Group]:
    """Return the groups of checks, the cheapest first."""
    target = cache(lambda: resolve(settings.target, threads=settings.threads))

    def check(name: str, run: Callable[..., str], *arguments: object) -> Check:
        return Check(name, lambda: run(target(), *arguments))

    stages = (
        ("tiles", networks.UNEQUAL),
        ("groups", networks.UNEQUAL),
        ("strips", networks.CHAIN),
    )
    return [
        Group(
            "machine",
            (check("vector width", _vector_width, settings.target), check("threads", _threads)),
            required=True,
        ),
        Group("kernels", tuple(check(case.name, _kernel, case) for case in CPU_CASES)),
        Group(
            "stages",
            (
                *(check(f"work by {name}", _repartitioned, case, name) for name, case in stages),
                *(check(case.name, _merged, case) for case in networks.MERGED),
            ),
        ),
        Group(
            "network",
            (
                check("in stages", _repartitioned, networks.WHOLE, "tiles"),
                check("as a library", _library),
            ),
        ),
        Group(
            "half precision",
            tuple(
                check(f"{case.name}, bf16", _half, case)
                for case in (*CASES, networks.WHOLE)
                if case.product
            ),
        ),
    ]


def _vector_width(target: tvm.target.Target, asked: str) -> str:
    """Check that LLVM uses the processor's widest vectors, unless another one was asked for."""
    check_runnable(target)
    cpu, lanes = this_cpu(), core_of(target).lanes
    name = target.attrs.get("mcpu", "its target")
    named = "mcpu" in tvm.target.Target(asked).attrs
    if lanes * _LANE_BITS < cpu.vector_bits and not named:
        raise KernelFault(
            f"LLVM uses {lanes * _LANE_BITS} of {cpu.vector_bits} bits of {cpu.vectors} for "
            f'{name}; name the processor with --target \'{{"kind": "llvm", "mcpu": ...}}\'.'
        )
    return f"{lanes} lanes of float32, {cpu.name} as {name}"


def _threads(target: tvm.target.Target) -> str:
    """Check that a parallel loop runs on the requested number of threads."""
    workers = num_workers(target)
    function = tvm.IRModule({"name_threads": _thread_names(workers)})
    module = tvm.compile(function, target=target).mod
    names = tvm.runtime.tensor(np.zeros(workers, "int32"))
    with_num_threads(workers, lambda: module["name_threads"](names))
    found = len(set(names.numpy().tolist()))
    if found != workers:
        raise KernelFault(
            f"{found} threads ran instead of {workers}: set their number by --threads, and unset "
            "TVM_NUM_THREADS and OMP_NUM_THREADS."
        )
    return f"{workers} of {os.cpu_count()} cores"


def _thread_names(workers: int) -> tvm.tirx.PrimFunc:
    """Return a parallel loop in which each worker writes the system's ID of its thread."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("name_threads")
        names = T.arg("names", T.buffer((workers,), "int32", layout=None))
        with T.sblock("root"):
            T.reads()
            T.writes()
            on_each_worker(
                workers,
                lambda worker: T.buffer_store(
                    names, tvm.tirx.call_extern("int32", "gettid"), [worker]
                ),
            )
    return builder.get()


def _kernel(target: tvm.target.Target, case: Case) -> str:
    inputs = case.inputs()
    scheduler = Scheduler.prepare(case.module(), target)
    variants = scheduler.compile({"sequential": scheduler.unsearched()})
    result = variants("sequential", [tvm.runtime.tensor(x) for x in inputs]).numpy()
    return compare(result, reference(case)(inputs))


def _half(target: tvm.target.Target, case: Case) -> str:
    """Check products of bfloat16, where the processor multiplies it."""
    if core_of(target).bf16_dot2 is None:
        return "this processor does not multiply bfloat16"
    scheduler = Scheduler.prepare(case.module(), target, options=Options(precision="bf16"))
    schedule, inputs = scheduler.unsearched(), case.inputs()
    variants = scheduler.compile({"sequential": schedule})
    result = variants("sequential", [tvm.runtime.tensor(x) for x in inputs]).numpy()
    bf16 = any(rounds(op.kernel) for op in schedule.operators)
    expected = reference(case, BF16 if bf16 else "fp32")(inputs)
    kind, *others = (op.kind for op in schedule.operators)
    if others:  # what they exchange is rounded, too
        return compare(result, expected, TOLERANCE[BF16])
    rounded = bf16 and kind.startswith("attention")
    return compare(result, expected, _EXPONENTIALS if rounded else EXACT)


def _repartitioned(target: tvm.target.Target, case: Case, partitioning: str) -> str:
    variants = TestedSchedules.compile(case, target, partitionings=[partitioning])
    return variants.check(partitioning, _RUNS)


def _merged(target: tvm.target.Target, case: Case) -> str:
    return TestedSchedules.compile(case, target, merging=True).check("merged", _RUNS)


def _library(target: tvm.target.Target) -> str:
    """Check that a library can be linked and runs without TVM's compiler."""
    return check_library(networks.WHOLE, target, 0, _RUNS)
