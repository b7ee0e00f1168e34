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
from ..support.errors import OpenShapeError, OptionError, TvmIosError
from ..support.progress import silence
from . import bench, cache, compile, db, env, interrupt, run, selftest, show, zoo

USER_ERROR = 4
INTERNAL_ERROR = 1  # as Python's own, where nobody catches it
_LONGEST = 1000  # characters of a sentence
BROKEN_PIPE = 128 + 13  # by SIGPIPE

_COMMANDS = (compile, run, show, bench, zoo, db, cache, env, selftest)

_EPILOG = """\
'tvm-ios COMMAND --help' lists the options of a command.

examples:
  tvm-ios compile zoo:squeezenet -o model.so --schedule-out s.json
  tvm-ios compile model.onnx -o model.so --input-shapes "x:[1,3,224,224]"
  tvm-ios run model.so --print-time -i in.npz -o out.npz
  tvm-ios show s.json
  tvm-ios show s.json --format html -o s.html
  tvm-ios bench zoo:squeezenet
  tvm-ios zoo
  tvm-ios db info
  tvm-ios cache info
  tvm-ios env
  tvm-ios selftest

The exit status is 0 for success, 4 for an error in your arguments, files or machine, 1 for a bug
or a failed self-test, and 130 after Ctrl-C.
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

    0 for success, 1 where a self-test fails or for an error of the package, 4 for an error of the
    user, 130 when interrupted.
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
        status = _report(error, _sentence(error), verbose, USER_ERROR)
    except KeyboardInterrupt:
        status = interrupted.report()
    except Exception as error:  # of ours, of TVM's or of Python's
        if _out_of_memory(error):
            status = _report(error, _too_large(error, arguments), verbose, USER_ERROR)
        else:
            status = _report(error, _unforeseen(error, arguments), verbose, INTERNAL_ERROR)
    return status


def _run(arguments: Sequence[str]) -> int:
    args = _parser().parse_args(arguments)
    if "run" not in args:
        raise OptionError(
            "Give a command: compile, run, show, bench, zoo, db, cache, env or selftest; see "
            "tvm-ios --help."
        )
    if args.quiet:
        silence()
    if args.verbose:
        logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
        logging.getLogger("tvm_ios").setLevel(logging.DEBUG)
    return args.run(args) or 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tvm-ios",
        description="Compile neural networks so that independent operators run at the same time.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"tvm-ios {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser


def _report(error: Exception, sentence: str, verbose: bool, status: int) -> int:
    """Say what went wrong in one line; with ``-v``, also where."""
    if verbose:
        traceback.print_exception(error)
    print(f"error: {_printable(sentence)}", file=sys.stderr)
    return status


def _printable(sentence: str) -> str:
    """Escape control characters in a sentence, and shorten it."""
    if len(sentence) > _LONGEST:
        sentence = f"{sentence[: _LONGEST // 2]} ... {sentence[-_LONGEST // 2 :]}"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in sentence)


def _too_large(error: Exception, arguments: Sequence[str]) -> str:
    """Return the message for a lack of memory."""
    reason = f" ({' '.join(str(error).split())})" if str(error) else ""
    return (
        f"'{' '.join(arguments)[:200]}' needs more memory than there is{reason}; give a smaller "
        "batch, smaller shapes, or use a machine with more."
    )


def _out_of_memory(error: Exception) -> bool:
    """Return whether Python, or C++ behind it, ran out of memory."""
    return isinstance(error, MemoryError) or "std::bad_alloc" in str(error)


def _unforeseen(error: Exception, arguments: Sequence[str]) -> str:
    """Return the message for an unexpected error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__
    return (
        f"'{' '.join(arguments)[:200]}' has failed ({reason[:300]}); this is a bug in tvm-ios or "
        "in a library that it uses: run it with -v to see where, and report it."
    )


def _sentence(error: Exception) -> str:
    if isinstance(error, OpenShapeError):
        return error.on_command_line()
    if isinstance(error, OSError) and not isinstance(error, TvmIosError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}." if error.filename else f"{reason}."
    return " ".join(str(error).split()).rstrip(".") + "."


def _drop_stdout() -> None:
    """Keep the interpreter from failing again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
