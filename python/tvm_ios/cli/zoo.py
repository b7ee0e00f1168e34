# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios zoo``: the networks that need no file."""

from __future__ import annotations

import argparse

from ..frontend.formats import formats
from ..support.errors import ModelError
from . import output
from .options import add_common

_EPILOG = """\
The networks have random weights. Every command that takes a model takes their names. --batch, and
--input-shapes for another size of images or another length of sequences, change their inputs.

examples:
  tvm-ios zoo
  tvm-ios compile zoo:squeezenet -o model.so
  tvm-ios bench zoo:squeezenet --input-shapes "data:[1,3,128,128]"
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "zoo",
        help="list the built-in networks",
        description="List the networks of the built-in zoo, and their inputs at batch size 1.",
        epilog=_EPILOG,
    )
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the networks with their inputs."""
    networks = {
        name: inputs
        for known in formats()
        if known.networks is not None
        for name, inputs in known.networks().items()
    }
    if not networks:
        raise ModelError("There are no built-in networks; install tvm-ios with pip.")
    if args.json:
        described = {
            name: {info.name: {"shape": info.shape, "dtype": info.dtype} for info in inputs}
            for name, inputs in networks.items()
        }
        output.print_json({"networks": described})
        return
    table = output.table("network", "inputs", left=("network", "inputs"))
    for name, inputs in networks.items():
        table.add_row(name, ", ".join(map(str, inputs)))
    output.console().print(table)
