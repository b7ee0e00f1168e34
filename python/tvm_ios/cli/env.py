# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios env``: what is installed, what this machine is, and what is known to go wrong."""

from __future__ import annotations

import argparse

import tvm

from tvm_ios_env import report

from .. import __version__
from . import output
from .options import add_common

_EPILOG = """\
The command also works if TVM cannot be loaded, and says why.

examples:
  tvm-ios env
  tvm-ios env --json
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "env",
        help="show versions, hardware and known problems",
        description="Show versions, cores, caches, vector unit, GPU and linker. Warn of settings "
        "that are known to make networks slow or measurements wrong.",
        epilog=_EPILOG,
    )
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print what is found; the warnings come last."""
    found = report.collect(llvm_cpu=str(tvm.target.codegen.llvm_get_system_cpu()))
    found["packages"]["tvm-ios"] = __version__  # a source tree has one, too
    if args.json:
        output.print_json(found)
    else:
        print(report.as_text(found))
