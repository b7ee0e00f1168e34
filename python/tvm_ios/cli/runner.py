# SPDX-License-Identifier: Apache-2.0
"""Arguments that say where a search measures."""

from __future__ import annotations

import argparse
import math

from ..backend.base import AnyKind
from ..measure.transport.locations import TIME_LIMIT, LocalRunner, ProcessRunner, RPCRunner, Runner
from ..support.errors import OptionError


def add_runner(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where stages are measured, named as in ``tvmc``."""
    parser.add_argument(
        "--rpc-tracker",
        metavar="HOST:PORT",
        help="measure on all free devices of this TVM RPC tracker; --target and --threads then "
        "describe the devices",
    )
    parser.add_argument("--rpc-key", metavar="KEY", help="key of the devices at the tracker")
    parser.add_argument(
        "--cross-compiler",
        metavar="CC",
        help="compiler that links for the devices, if their architecture differs (default: g++)",
    )
    parser.add_argument(
        "--isolate",
        action=argparse.BooleanOptionalAction,
        help="measure in another process, so that a stage that crashes or hangs does not end the "
        "search (default: for CUDA devices)",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=None,
        metavar="SECONDS",
        help="time limit of a stage with --rpc-tracker or --isolate; a stage that takes longer is "
        f"not used (default: {TIME_LIMIT:g})",
    )


def chosen_runner(args: argparse.Namespace, kind: AnyKind, *, searches: bool) -> Runner:
    """Return where stages are measured.

    Parameters
    ----------
    args : argparse.Namespace
        The command's arguments.
    kind : TargetKind
        The kind of the target.
    searches : bool
        Whether it searches; otherwise no process is started for measuring.

    Raises
    ------
    OptionError
        When they contradict each other.
    """
    timeout = TIME_LIMIT if args.timeout is None else args.timeout
    if (args.rpc_tracker is None) != (args.rpc_key is None):
        raise OptionError("--rpc-tracker and --rpc-key need each other; give both.")
    if args.device_id and args.rpc_tracker:
        raise OptionError("--device-id and --rpc-tracker exclude each other; give one.")
    if args.rpc_tracker is not None:
        if args.isolate:
            raise OptionError("--isolate and --rpc-tracker exclude each other; give one.")
        return RPCRunner(
            args.rpc_tracker, args.rpc_key, timeout=timeout, cross_compiler=args.cross_compiler
        )
    if args.cross_compiler is not None:
        raise OptionError("--cross-compiler needs a device; give --rpc-tracker, too.")
    usual = kind.runner(args.device_id) if searches else LocalRunner(args.device_id)
    isolated = usual.isolated if args.isolate is None else args.isolate
    if isolated:
        return ProcessRunner(timeout, device_id=args.device_id)
    if args.timeout is not None:
        raise OptionError("--timeout needs --isolate or --rpc-tracker; give one of them, too.")
    return LocalRunner(args.device_id)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be above 0, got {text}")
    return value


_seconds.__name__ = "number"
