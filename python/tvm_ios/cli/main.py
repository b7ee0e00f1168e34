# SPDX-License-Identifier: Apache-2.0
"""The entry point: from arguments to a sub-command, and from what it raises to an exit status."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from tvm_ios_env import interrupted

from .. import __version__
from ..errors import OptionError, TvmIosError
from . import bench, compile, db, env, interrupt, run, selftest, show

USER_ERROR = 4
BROKEN_PIPE = 128 + 13  # by SIGPIPE

_COMMANDS = (compile, run, show, bench, db, env, selftest)

_EPILOG = """\
examples:
  tvm-ios bench zoo:squeezenet
  tvm-ios compile model.onnx -o model.so --input-shapes "x:[1,3,224,224]" --schedule-out s.json
  tvm-ios run model.so --print-time -i in.npz -o out.npz
  tvm-ios show s.json
  tvm-ios show s.json --format html -o s.html
  tvm-ios db info
  tvm-ios env
  tvm-ios selftest
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are those of the package: one sentence, no usage."""

    def __init__(self, **settings: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=layout, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message[:1].upper()}{message[1:]}; see {self.prog} --help.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0 for success, 1 where a self-test fails, 4 for an error of the user, 130 when interrupted.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    verbose = "-v" in arguments or "--verbose" in arguments  # also for errors in the arguments
    try:
        with interrupt.watch():
            status = _run(arguments)
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        status = BROKEN_PIPE
    except (TvmIosError, OSError) as error:
        status = _report(error, verbose)
    except KeyboardInterrupt:
        status = interrupted.report()
    return status


def _run(arguments: Sequence[str]) -> int:
    args = _parser().parse_args(arguments)
    if "run" not in args:
        raise OptionError(
            "Give a command: compile, run, show, bench, db, env or selftest; see tvm-ios --help."
        )
    if args.verbose:
        logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
        logging.getLogger("tvm_ios").setLevel(logging.DEBUG)
    return args.run(args) or 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tvm-ios",
        description="Schedule a network's operators into stages of concurrent or merged ones.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"tvm-ios {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser


def _report(error: Exception, verbose: bool) -> int:
    """Say what went wrong in one line; with ``-v``, also where."""
    if verbose:
        traceback.print_exception(error)
    print(f"error: {_sentence(error)}", file=sys.stderr)
    return USER_ERROR


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, TvmIosError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}." if error.filename else f"{reason}."
    return " ".join(str(error).split()).rstrip(".") + "."


def _drop_stdout() -> None:
    """Keep the interpreter from failing again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
