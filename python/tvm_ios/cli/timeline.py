# SPDX-License-Identifier: Apache-2.0
"""What ``tvm-ios show`` runs: the model of a schedule, for its timeline and its profile."""

from __future__ import annotations

import argparse

import tvm

from .. import draw
from ..backend.registry import kind_of
from ..compiler import steps
from ..compiler.profiling import profile_run
from ..compiler.scheduler import Scheduler
from ..frontend.models import load_model
from ..measure.profile import NetworkProfile
from ..measure.transport.locations import LocalRunner
from ..schedule.devices import device_terms
from ..schedule.options import Options
from ..schedule.schedule import Schedule
from ..support.errors import OptionError
from .options import add_device, add_kernels, add_model_shapes


def add_timeline(parser: argparse.ArgumentParser) -> None:
    """Add the model that a schedule was made for, as ``compile`` takes it."""
    group = parser.add_argument_group(
        "timeline and profile",
        "Give the model, and the same kernel options as when the schedule was made. It is run for "
        "--format perfetto, and for the work and the waiting in a table or in --json.",
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
    """Raise OptionError unless a model is given where one is run, and described where it is."""
    if args.format == "perfetto" and args.model is None:
        raise OptionError("--format perfetto runs the model; give it with --model.")
    if args.model is not None:
        if args.format not in ("perfetto", "text"):
            raise OptionError(
                "--model is for --format perfetto, a table or --json; leave one of both out."
            )
        if len(args.schedules) > 1:
            raise OptionError("--model runs one schedule; give one.")
        return
    unused = argparse.ArgumentParser()
    _add_details(unused)
    for name, default in vars(unused.parse_args([])).items():
        if getattr(args, name) != default:
            flag = "--" + name.replace("_", "-")
            raise OptionError(f"{flag} describes the model; give that, too, with --model.")


def timeline(args: argparse.Namespace, schedule: Schedule) -> str:
    """Run the model on this machine, and tell when each worker, or stream, did what."""
    scheduler = _prepare(args, schedule)
    return draw.perfetto(schedule, scheduler.graph, scheduler.trace(schedule))


def profile(args: argparse.Namespace, schedule: Schedule) -> NetworkProfile:
    """Run the model on this machine, and tell how much its workers do, and how long they wait.

    Raises
    ------
    OptionError
        When the schedule is for a device that has no workers.
    """
    if not device_terms(schedule.target).counted:
        raise OptionError("A GPU has no worker threads to profile; give --format perfetto.")
    return profile_run(_prepare(args, schedule), schedule)


def _prepare(args: argparse.Namespace, schedule: Schedule) -> Scheduler:
    """Load the model that the schedule was made for."""
    target, runner = tvm.target.Target(schedule.target), LocalRunner(args.device_id)
    kind = kind_of(target)
    kind.check(target, args.device_id)
    allowed = Options(winograd=args.winograd, precision=args.precision, cudnn=args.cudnn)
    batch = args.batch or schedule.batch
    mod = load_model(args.model, args.input_shapes, batch, args.params, args.trust, dict(args.dim))
    options, function = allowed.applying(schedule), schedule.function
    return steps.prepare(kind, mod, target, options, runner, function=function)
