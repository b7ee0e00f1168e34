# SPDX-License-Identifier: Apache-2.0
"""What ``tvm-ios show --format perfetto`` needs: the model, which is run."""

from __future__ import annotations

import argparse

import tvm

from .. import draw
from ..backend.registry import kind_of
from ..compiler import steps
from ..frontend.models import load_model
from ..measure.runners import LocalRunner
from ..schedule.options import Options
from ..schedule.schedule import Schedule
from ..support.errors import OptionError
from .options import add_device, add_kernels, add_model_shapes


def add_timeline(parser: argparse.ArgumentParser) -> None:
    """Add the model that a schedule was made for, as ``compile`` takes it."""
    group = parser.add_argument_group(
        "timeline (--format perfetto)",
        "Give the model, and the same kernel options as when the schedule was made.",
    )
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="model that the schedule was made for, in any form that 'compile' reads",
    )
    _add_details(group)


def _add_details(parser: argparse._ActionsContainer) -> None:
    """Add what is said of the model."""
    add_model_shapes(parser)
    add_device(parser)
    add_kernels(parser)


def check_timeline(args: argparse.Namespace) -> None:
    """Raise OptionError unless a model is given, and described, exactly where one is run."""
    if args.format == "perfetto":
        if args.model is None:
            raise OptionError("--format perfetto runs the model; give it with --model.")
        return
    unused = argparse.ArgumentParser()
    _add_details(unused)
    defaults = {"model": None, **vars(unused.parse_args([]))}
    for name, default in defaults.items():
        if getattr(args, name) != default:
            flag = "--" + name.replace("_", "-")
            raise OptionError(
                f"{flag} is for --format perfetto; leave it out, or give that format."
            )


def timeline(args: argparse.Namespace, schedule: Schedule) -> str:
    """Run the model on this machine, and tell when each worker, or stream, did what."""
    target, runner = tvm.target.Target(schedule.target), LocalRunner(args.device_id)
    kind_of(target).check(target, args.device_id)
    allowed = Options(winograd=args.winograd, precision=args.precision, cudnn=args.cudnn)
    batch = args.batch or schedule.batch
    mod = load_model(args.model, args.input_shapes, batch, args.params, args.trust)
    options, function = allowed.applying(schedule), schedule.function
    scheduler = steps.prepare(mod, target, options, runner, function=function)
    return draw.perfetto(schedule, scheduler.graph, scheduler.trace(schedule))
