# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios bench``: what scheduling gains on a network, and how exact the result is."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_ios_runtime.model import leaves

from ..compare import Comparison, compare
from ..files import replacing
from ..measure.model import random_inputs
from ..measure.progress import working
from ..schedule import Schedule
from ..scheduler import Scheduler
from ..target import is_cuda, resolve
from . import interrupt, output
from .options import Request, add_common, add_network, add_search, add_seed

_EPILOG = """\
examples:
  tvm-ios bench zoo:squeezenet
  tvm-ios bench zoo:inception_v3 --batch 4 --threads 2 --json
  tvm-ios bench model.onnx --schedule-in s.json
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure what scheduling gains",
        description="Time a network under the sequential, the greedy and the searched schedule in "
        "one run, and compare its outputs with those of TVM's own lowering.",
        epilog=_EPILOG,
    )
    add_network(parser)
    add_search(parser)
    add_seed(parser)
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Search, time, check and report."""
    request = Request(args)
    if not request.site.remote:
        request.site.check(request.target)
    with replacing(*filter(None, [args.schedule_out])) as drafts:
        mod, scheduler = request.load()
        outcome = _timed(scheduler, request.given)
        elsewhere = request.site.remote or is_cuda(request.target)
        here = resolve("llvm") if elsewhere else request.target
        schedule, errors = outcome.schedule, _errors(mod, scheduler, outcome, here)
        for draft in drafts:
            schedule.save(draft)
        interrupt.check()
    result = _result(args.model, schedule, errors)
    if args.json:
        output.print_json(result)
    else:
        _print(result, schedule)


def _timed(scheduler: Scheduler, given: Schedule | None) -> Comparison:
    """The schedule that would be applied, with the latencies of all three."""
    if given is None:
        return compare(scheduler, with_greedy=True)
    sequential, greedy = scheduler.sequential(), scheduler.greedy()
    ways = scheduler.compile({"sequential": sequential, "greedy": greedy, "scheduled": given})
    return Comparison(replace(given, measured=ways.seconds()), "scheduled", ways)


def _errors(
    mod: tvm.IRModule, scheduler: Scheduler, outcome: Comparison, here: tvm.target.Target
) -> tuple[float, float]:
    """The largest absolute error, and relative to the largest output, on random inputs.

    The reference is TVM's default lowering of the imported module, which has nothing in common
    with the kernels of this package; it runs in this process, for the target ``here``.
    """
    function = scheduler.graph.function
    arguments = random_inputs(mod[function], scheduler.options.seed)
    target = _compiled_quickly(here)
    with working("computing the outputs by TVM alone"):
        reference = tvm.compile(mod, target, relax_pipeline=relax.get_default_pipeline(target))
        vm = relax.VirtualMachine(reference, tvm.cpu())
        expected = _arrays(vm[function](*arguments))
    computed = _arrays(outcome.ways(outcome.name, arguments))
    largest = max(float(np.abs(e).max(initial=0.0)) for e in expected)
    error = max(
        float(np.abs(c - e).max(initial=0.0)) for c, e in zip(computed, expected, strict=True)
    )
    return error, error / largest if largest else error


def _compiled_quickly(target: tvm.target.Target) -> tvm.target.Target:
    """The target with few of LLVM's optimisations: the reference runs once."""
    config = {str(key): value for key, value in target.export().items()}
    return tvm.target.Target({**config, "opt-level": 1})


def _arrays(outputs: Any) -> list[np.ndarray]:
    return [tensor.numpy().astype("float64") for tensor in leaves(outputs)]


def _result(model: str, schedule: Schedule, errors: tuple[float, float]) -> dict[str, Any]:
    measured = schedule.measured
    return {
        "model": model,
        "target": schedule.target,
        "threads": schedule.workers,
        "operators": len(schedule.operators),
        "stages": len(schedule.stages),
        **output.times(measured),
        "speedup": output.speedup(measured, "scheduled"),
        "search_s": round(schedule.search_seconds, 3),
        "measurements": schedule.measurements,
        "max_abs_error": errors[0],
        "max_rel_error": errors[1],
    }


def _print(result: dict[str, Any], schedule: Schedule) -> None:
    console = output.console()
    console.print(
        f"{result['model']}: {result['operators']} operators in {result['stages']} stages, "
        f"{result['threads']} threads"
    )
    table = output.table("schedule", "ms", "speed-up", left=("schedule",))
    for name in ("sequential", "greedy", "scheduled"):
        gain = output.speedup(schedule.measured, name)
        table.add_row(name, f"{result[f'{name}_ms']:.3f}", "" if gain is None else f"{gain:.2f}x")
    console.print(table)
    if "found_ms" in result:
        console.print(f"The schedule found took {result['found_ms']:.3f} ms: a baseline is kept.")
    console.print(f"search: {result['search_s']:.1f} s, {result['measurements']} stages measured")
    console.print(
        f"error: at most {result['max_abs_error']:.2e}, "
        f"{result['max_rel_error']:.2e} of the largest output"
    )
