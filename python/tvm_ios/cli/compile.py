# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios compile``: from a network to a shared library."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..backend.shared.export import check_linker
from ..compiler import steps
from ..compiler.specialise import specialise
from ..draw import words
from ..schedule.schedule import Schedule
from ..support.errors import OptionError
from ..support.files import replacing
from . import interrupt, output
from .options import Request, add_common, add_network, add_search, add_seed, batch_sizes

_logger = logging.getLogger(__name__)

_EPILOG = """\
A library for a CPU runs with apache-tvm alone:

  vm = tvm.relax.VirtualMachine(tvm.runtime.load_module("model.so"), tvm.cpu())
  vm["main"](tvm.runtime.tensor(x))

examples:
  tvm-ios compile model.onnx -o model.so
  tvm-ios compile model.onnx -o model.so --input-shapes "x:[1,3,224,224]" --threads 4
  tvm-ios compile model.onnx -o model.so --pass-config max_group_size=2 --schedule-out s.json
  tvm-ios compile model.onnx -o model.so --schedule-in s.json
  tvm-ios compile model.onnx -o model.so --no-search
  tvm-ios compile model.onnx -o model.so --precision auto --tolerance 0.01
  tvm-ios compile model.relay --params model.params -o model.so
  tvm-ios compile model.onnx -o model.so --batch-sizes 1,16,32 --schedule-out s.json
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compile",
        help="compile a network to a shared library",
        description="Search for the fastest schedule of a network, and compile the network to a "
        "shared library. The library uses the sequential schedule unless another one is found to "
        "be faster as a whole.",
        epilog=_EPILOG,
    )
    add_network(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="library to write, NAME.so"
    )
    add_search(parser)
    parser.add_argument(
        "--batch-sizes",
        type=batch_sizes,
        metavar="N,...",
        help="compile a library, NAME.bN.so, and a schedule for each of these batch sizes; every "
        "schedule is timed at every batch size, and each library uses the fastest",
    )
    parser.add_argument(
        "--no-search",
        action="store_true",
        help="measure nothing; every operator is a stage of its own",
    )
    parser.add_argument(
        "-i",
        "--inputs",
        metavar="FILE",
        help="measure the error of --precision auto on the inputs in this .npz file, by name, "
        "instead of on random ones",
    )
    add_seed(parser)
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Compile; the files appear whole, and together, or not at all."""
    batches: list[int | None] = args.batch_sizes or [None]
    _check(args)
    libraries = [_for_batch(args.output, batch) for batch in batches]
    notes = [_for_batch(args.schedule_out, batch) for batch in batches if args.schedule_out]
    check_linker()
    request = Request(args)
    with replacing(*libraries, *notes) as drafts:
        schedules = _compile(request, drafts[: len(batches)], args, batches)
        for schedule, draft in zip(schedules, drafts[len(batches) :], strict=bool(notes)):
            output.write_schedule(draft, schedule)
        interrupt.check()
    _report(args, libraries, schedules)


def _check(args: argparse.Namespace) -> None:
    """Raise OptionError for arguments that are at odds."""
    if Path(args.output).suffix != ".so":
        raise OptionError(f"The output must be named NAME.so, got {args.output}.")
    if args.schedule_out and Path(args.output).resolve() == Path(args.schedule_out).resolve():
        raise OptionError("--output and --schedule-out name the same file; give two.")
    if args.no_search and args.schedule_in:
        raise OptionError("--no-search and --schedule-in exclude each other; give one.")
    for other in ("batch", "schedule_in", "no_search", "inputs"):
        if args.batch_sizes and getattr(args, other):
            flag = "--" + other.replace("_", "-")
            raise OptionError(f"--batch-sizes and {flag} exclude each other; give one.")


def _for_batch(name: str, batch: int | None) -> Path:
    """Insert a batch size into a file name: ``model.so`` as ``model.b16.so``."""
    path = Path(name)
    return path if batch is None else path.with_suffix(f".b{batch}{path.suffix}")


def _compile(
    request: Request,
    libraries: Sequence[Path],
    args: argparse.Namespace,
    batches: Sequence[int | None],
) -> list[Schedule]:
    """Write the libraries and return the schedules that were applied."""
    schedulers = {batch: request.load(batch)[1] for batch in batches}
    schedules: dict[int | None, Schedule] = {}
    if args.batch_sizes:
        sized = {b: s for b, s in schedulers.items() if b is not None}
        schedules.update(specialise(sized).items())
    else:
        schedules[None] = steps.choose(schedulers[None], request.given, search=not args.no_search)
    for batch, library in zip(batches, libraries, strict=True):
        schedule = schedules[batch]
        _logger.info("%r", schedule)
        steps.write(steps.build(schedulers[batch], schedule), library, request.runner)
    return list(schedules.values())


def _report(
    args: argparse.Namespace, libraries: Sequence[Path], schedules: Sequence[Schedule]
) -> None:
    results = [_result(args.model, *pair) for pair in zip(libraries, schedules, strict=True)]
    if args.json:
        output.print_json({"batch_sizes": results} if args.batch_sizes else results[0])
        return
    console = output.console()
    for library, schedule in zip(libraries, schedules, strict=True):
        console.print(
            f"{library}: {len(schedule.operators)} operators in {len(schedule.stages)} stages "
            f"for {words.machine(schedule)}"
        )
        known = schedule.measured or schedule.estimates
        if known:
            told = schedule.speedup is not None or not schedule.measured
            console.print(output.comparison(known, factors=told))
        if schedule.verdict:
            console.print(f"speed-up: {schedule.verdict}")
        if words.precision(schedule):
            console.print(f"precision: {words.precision(schedule)}")
    if args.batch_sizes:
        console.print(output.specialisation(schedules))


def _result(model: str, library: Path, schedule: Schedule) -> dict[str, Any]:
    result: dict[str, Any] = {
        "model": model,
        "output": str(library),
        "target": schedule.target,
        "threads": schedule.workers,
        "operators": len(schedule.operators),
        "stages": len(schedule.stages),
        "measurements": schedule.measurements,
        "search_s": round(schedule.search_seconds, 3),
        "cut_cost": schedule.cut_cost,
        "search_gap": schedule.search_gap,
        **output.times(schedule.measured or schedule.estimates),
        "speedup_interval": output.interval(schedule),
        "rounding": None if schedule.rounding is None else asdict(schedule.rounding),
    }
    if schedule.batch is not None:
        at_batch = {batch: round(1e3 * s, 6) for batch, s in schedule.at_batch.items()}
        result |= {"batch": schedule.batch, "at_batch_ms": at_batch}
    return result
