# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios compile``: from a network to a shared library."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from ..compare import find_faster
from ..errors import OptionError
from ..export import export
from ..files import replacing
from ..schedule import Schedule
from . import artifact, interrupt, output
from .options import Request, add_common, add_network, add_search, add_seed

_logger = logging.getLogger(__name__)

_EPILOG = """\
The library runs with apache-tvm alone:

  vm = tvm.relax.VirtualMachine(tvm.runtime.load_module("model.so"), tvm.cpu())
  vm["main"](tvm.runtime.tensor(x))

examples:
  tvm-ios compile model.onnx -o model.so
  tvm-ios compile model.onnx -o model.so --input-shapes "x:[1,3,224,224]" --threads 4
  tvm-ios compile model.onnx -o model.so --pass-config max_group_size=2 --schedule-out s.json
  tvm-ios compile model.onnx -o model.so --schedule-in s.json
  tvm-ios compile model.onnx -o model.so --no-search
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "compile",
        help="compile a network to a shared library",
        description="Search a schedule for a network and compile it to a shared library.",
        epilog=_EPILOG,
    )
    add_network(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the library to write: NAME.so"
    )
    add_search(parser)
    parser.add_argument(
        "--no-search",
        action="store_true",
        help="measure nothing: every operator is a stage of its own",
    )
    add_seed(parser)
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Compile; the files appear whole, and together, or not at all."""
    paths = [Path(path) for path in (args.output, args.schedule_out) if path]
    if paths[0].suffix != ".so":
        raise OptionError(f"The output must be named NAME.so, got {args.output}.")
    if len({path.resolve() for path in paths}) < len(paths):
        raise OptionError("--output and --schedule-out name the same file; give two.")
    if args.no_search and args.schedule_in:
        raise OptionError("--no-search and --schedule-in are at odds; give one of them.")
    artifact.check_linker()
    request = Request(args)
    with replacing(*paths) as drafts:
        schedule = _compile(request, drafts[0], not args.no_search)
        for draft in drafts[1:]:
            schedule.save(draft)
        interrupt.check()
    _report(args, schedule)


def _compile(request: Request, library: Path, search: bool) -> Schedule:
    """Write the library and return the schedule that was applied."""
    _, scheduler = request.load()
    schedule = request.given or (find_faster(scheduler) if search else scheduler.unsearched())
    _logger.info("%r", schedule)
    executable = artifact.build(scheduler.emit(schedule), schedule, request.target)
    export(executable, library, request.site.compiler)
    return schedule


def _report(args: argparse.Namespace, schedule: Schedule) -> None:
    known = schedule.measured or schedule.estimates
    if args.json:
        output.print_json(
            {
                "model": args.model,
                "output": args.output,
                "target": schedule.target,
                "threads": schedule.workers,
                "operators": len(schedule.operators),
                "stages": len(schedule.stages),
                "measurements": schedule.measurements,
                "search_s": round(schedule.search_seconds, 3),
                "branches_cut": schedule.branches_cut,
                **output.times(known),
            }
        )
        return
    console = output.console()
    console.print(
        f"{args.output}: {len(schedule.operators)} operators in {len(schedule.stages)} stages "
        f"for {schedule.workers} threads"
    )
    if known:
        console.print(output.comparison(known))
