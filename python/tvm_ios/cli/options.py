# SPDX-License-Identifier: Apache-2.0
"""Arguments that several sub-commands share, and what their texts mean."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import tvm

from tvm_ios_runtime import TensorInfo

from ..backend.cpu.rules.tuned import check_database, open_database
from ..backend.registry import kind_of
from ..compiler import steps
from ..compiler.scheduler import Scheduler
from ..frontend.dimensions import Dims
from ..frontend.formats import model_help, with_weights
from ..frontend.models import load_model
from ..relax_ir.expressions import static_shape
from ..schedule.options import AUTO, CHOICES, Options
from ..schedule.partitioning import STRATEGIES
from ..schedule.schedule import Schedule
from ..schedule.versions import modernized_options
from ..sizes.size import OpenSizes
from ..support.errors import OptionError
from ..support.progress import working
from .default_database import add_database, chosen
from .inputs import read_inputs
from .runner import add_runner, chosen_runner

_logger = logging.getLogger(__name__)

_SHAPE = re.compile(
    r"\s*((?P<name>[^\s\[\],]+?)\s*:)?\s*\[\s*(?P<sizes>(\d+\s*(,\s*\d+\s*)*)?)\]\s*(,|\s|$)"
)
_UNLIMITED = ("max_group_size", "max_num_groups")
_WHOLE = (*_UNLIMITED, "max_block_size")
_CONFIG = (*_WHOLE, "coverage", "lcb_factor")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command."""
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="log progress, and print the traceback of an error",
    )
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="show no progress; without, it is shown if standard error is a terminal",
    )


def add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=whole(0), default=0, metavar="N", help="seed of random inputs (default: 0)"
    )


def add_network(parser: argparse.ArgumentParser) -> None:
    """Add the network, and the machine that it is for."""
    parser.add_argument("model", metavar="MODEL", help=model_help())
    add_machine(parser)
    add_model_shapes(parser)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Add the target and its number of threads."""
    parser.add_argument(
        "--target",
        default="llvm",
        help="TVM target of kind llvm or cuda, as a name or as JSON; llvm is the CPU of this "
        "machine (default), cuda its GPU",
    )
    add_device(parser)
    parser.add_argument(
        "--threads",
        type=whole(1),
        metavar="N",
        help="number of worker threads (default: all cores)",
    )


def add_device(parser: argparse._ActionsContainer) -> None:
    """Add the number of the GPU."""
    parser.add_argument(
        "--device-id",
        type=whole(0),
        default=0,
        metavar="N",
        help="index of the GPU, if the target is a GPU (default: 0)",
    )


def add_model_shapes(parser: argparse._ActionsContainer) -> None:
    """Add what a model file may leave open: weights, shapes, batch size."""
    weights = [f"weights of {known.noun}, in {known.weights}" for known in with_weights()]
    parser.add_argument(
        "--params",
        metavar="FILE",
        help="; ".join(weights) or "weights, for a format that has them in files of their own",
    )
    parser.add_argument(
        "--input-shapes",
        type=input_shapes,
        default={},
        metavar='"NAME:[N,...],..."',
        help="shapes of the inputs whose dimensions the model leaves open",
    )
    parser.add_argument(
        "--dim",
        type=dimension,
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="size of a dimension that the model leaves open, by the name that the model has for "
        "it; or its bounds, as seq=1..512; repeat the option for each",
    )
    parser.add_argument(
        "--batch", type=whole(1), metavar="N", help="batch size, if the model leaves it open"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="allow a .pt2 file to execute code that it contains; a file without code needs no "
        "trust",
    )


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the search."""
    parser.add_argument(
        "--pass-config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the search; repeat it to give several. max_group_size: operators in a "
        "group, or none for no limit (default: 3). max_num_groups: groups in a stage, or none "
        "(default: 8). These two are IOS's pruning limits r and s. max_block_size: operators that "
        "are searched together (default: 50); a larger network is cut into blocks, and equal "
        "blocks are searched once (-v prints how many there are). coverage: the share "
        "of stages that are slower than the bounds of the search, from 0.5 to 0.99 (default: "
        "0.7); a larger value measures more stages. lcb_factor: the same in standard deviations, "
        "as earlier releases had it",
    )
    parser.add_argument(
        "--schedule-in", metavar="FILE", help="apply this schedule instead of searching"
    )
    parser.add_argument(
        "--schedule-out", metavar="FILE", help="write the schedule to this file, as JSON"
    )
    parser.add_argument(
        "--tuning-records",
        metavar="DIRECTORY",
        help="MetaSchedule database; an operator that was tuned uses its kernel from there; "
        "for CPUs",
    )
    parser.add_argument(
        "--measure-all",
        action="store_true",
        help="measure every stage within the limits, instead of only those that could change the "
        "schedule according to the learned cost model",
    )
    add_kernels(parser)
    parser.add_argument(
        "--strategies",
        type=lambda text: tuple(name.strip() for name in text.split(",")),
        default=STRATEGIES,
        metavar="NAME,...",
        help="kinds of stages that the search may form: concurrent, whose groups run at the same "
        "time, and merge, in which one larger operator replaces the others; with merge alone, "
        "every operator that is not replaced is a stage of its own (default: concurrent,merge)",
    )
    add_database(parser)
    add_runner(parser)


def add_kernels(parser: argparse._ActionsContainer) -> None:
    """Add the arguments that decide which kernels operators may have."""
    parser.add_argument(
        "--winograd",
        action=argparse.BooleanOptionalAction,
        help="use Winograd's algorithm for convolutions where it is faster; it rounds differently "
        "(default: as for the schedule that is applied, or yes if there is none)",
    )
    parser.add_argument(
        "--precision",
        choices=CHOICES,
        default=Options.precision,
        help="precision of the factors in convolutions and matrix products: fp32 is exact; on a "
        "GPU the others round the factors for tensor cores; on a CPU that multiplies bfloat16, "
        "bf16 rounds factors and values between operators, auto does so as far as --tolerance "
        "allows, and model (default) does so if all that the model multiplies is bfloat16, or as "
        "the schedule that is applied; sums are always in float32",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=Options.tolerance,
        metavar="E",
        help="largest error that the precision auto may make on random inputs, in shares of the "
        "largest magnitude of an output; what would make it larger stays in float32 (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--cudnn",
        action="store_true",
        help="use cuDNN for convolutions on a GPU where it is faster; the compiled model then "
        "needs cuDNN, too (pip install nvidia-cudnn-cu13)",
    )


def whole(least: int) -> Callable[[str], int]:
    """Return an argument type: whole numbers of at least ``least``."""

    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
        return value

    parse.__name__ = "whole number"
    return parse


def batch_sizes(text: str) -> list[int]:
    """Parse ``1,16,32`` into different whole numbers."""
    try:
        sizes = [whole(1)(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of batch sizes") from None
    if len(set(sizes)) < len(sizes):
        raise argparse.ArgumentTypeError(f"{text!r} names a batch size twice")
    return sizes


def input_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """Parse ``x:[1,3,224,224],y:[2]`` into shapes by name, as ``tvmc`` did.

    The name of a single input may be left out.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    position = 0
    while position < len(text.rstrip()):
        match = _SHAPE.match(text, position)
        if match is None:
            raise argparse.ArgumentTypeError(
                f'{text!r} is not a list of shapes such as "x:[1,3,224,224],y:[2]"'
            )
        name = match["name"] or ""
        sizes = tuple(int(size) for size in match["sizes"].split(",") if size.strip())
        if name in shapes:
            raise argparse.ArgumentTypeError(f"the shape of {name or 'an input'!r} is given twice")
        if 0 in sizes:
            raise argparse.ArgumentTypeError(f"every dimension of {name!r} must be at least 1")
        shapes[name] = sizes
        position = match.end()
    return shapes


def dimension(text: str) -> tuple[str, int | tuple[int, int]]:
    """Parse ``seq=128`` or ``seq=1..512``."""
    match = re.fullmatch(r"(?P<name>.+)=(?P<least>\d{1,18})(\.\.(?P<most>\d{1,18}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as seq=128 or seq=1..512")
    least = int(match["least"])
    return match["name"], least if match["most"] is None else (least, int(match["most"]))


def search_options(pairs: Sequence[str], **others: Any) -> Options:
    """Return the search options of ``--pass-config`` and of other arguments.

    Raises
    ------
    OptionError
        For a name that does not exist, or a value out of range.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        given, _, text = pair.partition("=")
        (name,) = modernized_options({given: text})
        if name not in _CONFIG:
            raise OptionError(
                f"There is no --pass-config {name!r}; the options are {', '.join(_CONFIG)}."
            )
        values[name] = _limit(name, text) if name in _WHOLE else _number(name, text)
    return Options(**values, **others)


def _limit(name: str, text: str) -> int | None:
    unlimited = name in _UNLIMITED and text == "none"
    if not (unlimited or re.fullmatch(r"-?\d{1,18}", text)):
        wanted = "a whole number or 'none'" if name in _UNLIMITED else "a whole number"
        raise OptionError(f"--pass-config {name} needs {wanted}, got {text!r}.")
    return None if unlimited else int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--pass-config {name} needs a number, got {text!r}.") from None


class Request:
    """What a command was asked for, checked in full before anything slow begins.

    Attributes
    ----------
    model : str
    options : Options
    kind : TargetKind
        The kind of the target.
    runner : Runner
        Where is measured.
    target : tvm.target.Target
        Completed with the CPU and the cores of the machine where is measured.
    given : Schedule or None
        The schedule to apply.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.model: str = args.model
        self.options = search_options(
            args.pass_config,
            seed=args.seed,
            measure_all=args.measure_all,
            winograd=args.winograd,
            precision=args.precision,
            tolerance=args.tolerance,
            cudnn=args.cudnn,
            database=chosen(args),
            strategies=args.strategies,
        )
        self._searches = not (args.schedule_in or getattr(args, "no_search", False))
        self.kind = kind_of(args.target)
        self.runner = chosen_runner(args, self.kind, searches=self._searches)
        self.target = steps.resolve(self.kind, args.target, args.threads, self.runner, runs=False)
        self.given = Schedule.load(args.schedule_in) if args.schedule_in else None
        self.options = self.options.applying(self.given)
        self._records: str | None = args.tuning_records
        if self._records is not None:
            check_database(self._records)
        self._shapes, self._batch, self._params = args.input_shapes, args.batch, args.params
        self._dims = _dims(args.dim)
        self._trust: bool = args.trust
        self._inputs: str | None = getattr(args, "inputs", None)
        if self._inputs and self.options.precision != AUTO:
            raise OptionError("--inputs is for --precision auto, whose error it measures.")

    def load(
        self,
        batch: int | None = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        opened: OpenSizes | None = None,
    ) -> tuple[tvm.IRModule, Scheduler]:
        """Import the network and return it, with the scheduler for it.

        Parameters
        ----------
        batch : int, optional
            Instead of ``--batch``.
        shapes : mapping of str to tuple of int, optional
            Beside those of ``--input-shapes``, or instead of them.
        opened : OpenSizes, optional
            Receives the dimensions that stay open; without it all must be given.
        """
        if self._searches and self.runner.machine is None:
            # The search runs what it prices.
            self.kind.check(self.target, self.runner.device_id)
        with working("reading the network"):
            batch = batch or self._batch
            shapes = {**self._shapes, **(shapes or {})}
            mod = load_model(
                self.model, shapes, batch, self._params, self._trust, self._dims, opened
            )
        tuned = open_database(self._records) if self._records else nullcontext()
        with tuned:
            sample = read_inputs(self._inputs, _inputs_of(mod)) if self._inputs else None
            scheduler = steps.prepare(
                self.kind, mod, self.target, self.options, self.runner, sample=sample
            )
        _logger.info("%s has %d operators", self.model, len(scheduler.graph.operators))
        _logger.info("target %s", self.target)
        if self.given is not None:
            scheduler.check(self.given)
        return mod, scheduler


def _dims(given: Sequence[tuple[str, int | tuple[int, int]]]) -> Dims:
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"The dimension {name!r} is given twice; give it once.")
    return dict(given)


def _inputs_of(mod: tvm.IRModule) -> list[TensorInfo]:
    """Return the inputs of a network's function."""
    return [
        TensorInfo(
            str(parameter.name),
            static_shape(parameter, "an input"),
            str(parameter.ty.dtype),
        )
        for parameter in mod["main"].params
    ]
