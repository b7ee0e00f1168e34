# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios compile``: from a network to a shared library."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..compiler import signatures, steps
from ..compiler.any_shape import Load, at_sizes, networks_of_any_shape, with_any_shape
from ..compiler.artifact import Serving
from ..compiler.scheduler import Scheduler
from ..compiler.signatures import Networks
from ..compiler.specialise import specialise
from ..draw import words
from ..lowering.export import check_linker
from ..relax_ir.expressions import static_shape
from ..schedule.schedule import Schedule
from ..sizes.size import OpenSizes
from ..support.errors import OpenShapeError, OptionError
from ..support.files import replacing
from ..support.progress import COMPILING, numbering
from . import interrupt, output
from .options import (
    Request,
    add_common,
    add_network,
    add_search,
    add_seed,
    batch_sizes,
    input_shapes,
)

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
  tvm-ios compile model.onnx -o model.so --batch-sizes 1,4,16 --one-library
  tvm-ios compile bert.onnx -o bert.so --shapes "ids:[1,64],mask:[1,64]" \
      --shapes "ids:[1,256],mask:[1,256]"
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
        "--one-library",
        action="store_true",
        help="compile one library for all --batch-sizes; it takes any other batch, too, if the "
        "model leaves it open or does not mix the rows of a batch",
    )
    parser.add_argument(
        "--shapes",
        type=input_shapes,
        action="append",
        default=[],
        metavar='"NAME:[N,...],..."',
        help="compile one library, with a function of its own for these shapes of the inputs; "
        "repeat the option for others; any other sizes of open dimensions are taken, too",
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
    _check(args)
    sizes = _sizes(args)
    shared = bool(args.one_library or args.shapes)
    libraries = [size.name(args.output) for size in ([_Size()] if shared else sizes)]
    notes = [size.name(args.schedule_out) for size in sizes if args.schedule_out]
    check_linker()
    request = Request(args)
    if shared:
        signatures.check_kind(request.kind)
    known = COMPILING if args.no_search or args.schedule_in else ()
    with replacing(*libraries, *notes) as drafts, numbering(known):
        networks: Networks
        failure: OpenShapeError | None = None
        try:
            networks = _scheduled(request, args, sizes)
            if shared:
                networks = with_any_shape(networks, loader(request))
                sizes += [_Size(what=_shapes(scheduler)) for scheduler, _ in networks[len(sizes) :]]
        except OpenShapeError as error:
            if sizes != [_Size()] or _is_of_one_shape(request, args):
                raise
            failure = error
            networks = networks_of_any_shape(loader(request), error, search=not args.no_search)
            sizes = [_Size(what=_shapes(scheduler)) for scheduler, _ in networks]
        serving = _write(
            request, networks, drafts, shared=shared or failure is not None, failure=failure
        )
        schedules = [schedule for _, schedule in networks]
        noted = schedules[: len(notes)]  # what is for any sizes follows the first one
        for schedule, draft in zip(noted, drafts[len(libraries) :], strict=True):
            output.write_schedule(draft, schedule)
        interrupt.check()
    if serving is None:
        _report(args, libraries, schedules)
    else:
        _report_shared(args, libraries[0], sizes, schedules, serving)


def _write(
    request: Request,
    networks: Sequence[tuple[Scheduler, Schedule]],
    drafts: Sequence[Path],
    *,
    shared: bool,
    failure: OpenShapeError | None,
) -> Serving | None:
    """Write one library, or one for each network; return what a shared one serves."""
    if shared:
        return signatures.write(networks, drafts[0], request.runner, failure)
    for network, library in zip(networks, drafts, strict=False):
        steps.write(steps.build(*network), library, request.runner)
    return None


def _check(args: argparse.Namespace) -> None:
    """Raise OptionError for arguments that are at odds."""
    if Path(args.output).suffix != ".so":
        raise OptionError(f"The output must be named NAME.so, got {args.output}.")
    if args.schedule_out and Path(args.output).resolve() == Path(args.schedule_out).resolve():
        raise OptionError("--output and --schedule-out name the same file; give two.")
    if args.no_search and args.schedule_in:
        raise OptionError("--no-search and --schedule-in exclude each other; give one.")
    for several in ("batch_sizes", "shapes"):
        for other in ("batch", "schedule_in", "inputs"):
            if getattr(args, several) and getattr(args, other):
                raise OptionError(
                    f"{_flag(several)} and {_flag(other)} exclude each other; give one."
                )
    if args.batch_sizes and args.shapes:
        raise OptionError("--batch-sizes and --shapes exclude each other; give one.")
    if args.one_library and not args.batch_sizes:
        raise OptionError("--one-library is for several batch sizes; give --batch-sizes.")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class _Size:
    """What the open dimensions of a model are to be.

    Attributes
    ----------
    label : str
        What distinguishes its files; empty for the only one.
    batch : int or None
    shapes : mapping of str to tuple of int
    what : str
        The shapes of the inputs, where the model decides them.
    """

    label: str = ""
    batch: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    what: str = ""

    def name(self, name: str) -> Path:
        """Insert the label into a file name: ``model.so`` as ``model.b16.so``."""
        path = Path(name)
        return path.with_suffix(f".{self.label}{path.suffix}") if self.label else path

    def __str__(self) -> str:
        shapes = ", ".join(f"{name} {list(shape)}" for name, shape in self.shapes.items())
        return self.what or (f"batch {self.batch}" if self.batch is not None else shapes)


def _sizes(args: argparse.Namespace) -> list[_Size]:
    """Return what is compiled."""
    if args.batch_sizes:
        return [_Size(f"b{batch}", batch) for batch in args.batch_sizes]
    given = [_Size(f"s{number}", None, shapes) for number, shapes in enumerate(args.shapes)]
    return given or [_Size()]


def _is_of_one_shape(request: Request, args: argparse.Namespace) -> bool:
    """Return whether what was asked for is for one shape."""
    return bool(args.schedule_in or args.inputs) or request.kind.device != "cpu"


def loader(request: Request) -> Load:
    """Return what reads the network of a request."""

    def load(
        opened: OpenSizes | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        batch: int | None = None,
    ) -> Scheduler:
        given = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        return request.load(batch, given, opened)[1]

    return load


def _shapes(scheduler: Scheduler) -> str:
    """Describe the shapes of a network's inputs."""
    function = scheduler.prepared[scheduler.graph.function]
    shapes = ((p.name, static_shape(p, "an input")) for p in function.params)
    return ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in shapes)


def _scheduled(
    request: Request, args: argparse.Namespace, sizes: Sequence[_Size]
) -> list[tuple[Scheduler, Schedule]]:
    """Return the network in each size, with its schedule."""
    load = loader(request)
    read = partial(at_sizes, load) if args.one_library or args.shapes else load
    schedulers = [read(shapes=size.shapes, batch=size.batch) for size in sizes]
    if args.batch_sizes and not args.no_search and not any(s.decides for s in schedulers):
        schedules = [*specialise(dict(zip(args.batch_sizes, schedulers, strict=True))).values()]
    else:
        schedules = [
            replace(
                steps.choose(scheduler, request.given, search=not args.no_search),
                batch=size.batch,
            )
            for scheduler, size in zip(schedulers, sizes, strict=True)
        ]
    for schedule in schedules:
        _logger.info("%r", schedule)
    return [*zip(schedulers, schedules, strict=True)]


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
    if any(schedule.at_batch for schedule in schedules):
        console.print(output.specialisation(schedules))


def _report_shared(
    args: argparse.Namespace,
    library: Path,
    sizes: Sequence[_Size],
    schedules: Sequence[Schedule],
    serving: Serving,
) -> None:
    """Say which shapes a library has functions for, and which others it serves."""
    if args.json:
        results = [_result(args.model, library, schedule) for schedule in schedules]
        named = [{"size": str(size)} | its for size, its in zip(sizes, results, strict=True)]
        others = {"seconds": serving.seconds, "splits": serving.splits, "pads": serving.pads}
        output.print_json({"signatures": named} | others)
        return
    console = output.console()
    shapes = "1 shape" if len(sizes) == 1 else f"{len(sizes)} shapes"
    console.print(f"{library}: {shapes} for {words.machine(schedules[0])}")
    table = output.table("shape", "operators", "stages", "ms", left=("shape",))
    times = [f"{1e3 * seconds:.3f}" for seconds in serving.seconds] or ["-"] * len(sizes)
    for size, schedule, time in zip(sizes, schedules, times, strict=True):
        table.add_row(str(size), str(len(schedule.operators)), str(len(schedule.stages)), time)
    console.print(table)
    if not sizes[-1].what:  # the last one is any other
        console.print(f"other shapes: {serving.describe()}")


def _result(model: str, library: Path, schedule: Schedule) -> dict[str, Any]:
    rounded, multiplying = words.rounded_operators(schedule)
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
        "bf16_operators": rounded,
        "multiplying_operators": multiplying,
        "rounding": None if schedule.rounding is None else asdict(schedule.rounding),
    }
    if schedule.batch is not None:
        at_batch = {batch: round(1e3 * s, 6) for batch, s in schedule.at_batch.items()}
        result |= {"batch": schedule.batch, "at_batch_ms": at_batch}
    return result
