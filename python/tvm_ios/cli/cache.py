# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios cache``: the object code of kernels that were compiled before."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TypeAlias

from ..support.caches import OBJECTS, object_directory
from ..support.object_store import LIMIT, ObjectStore
from .options import add_common, whole

_Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_EPILOG = f"""\
A kernel is compiled once: networks, searches and processes share its object code. The directory is
objects in $XDG_CACHE_HOME/tvm-ios or ~/.cache/tvm-ios, or what {OBJECTS} names; if that is empty,
nothing is kept. Beyond {LIMIT >> 20} MB the kernels that were not used for longest are removed.

examples:
  tvm-ios cache info
  tvm-ios cache prune --megabytes 100
  tvm-ios cache prune --megabytes 0
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "cache",
        help="inspect and prune the object code of kernels",
        description="Inspect and prune the object code of kernels that were compiled before.",
        epilog=_EPILOG,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for add in (_add_info, _add_prune):
        add_common(add(actions))


def _add_info(actions: _Actions) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "info", help="say where it is, and how much", description="Count the objects."
    )
    parser.set_defaults(run=_info)
    return parser


def _add_prune(actions: _Actions) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "prune",
        help="remove objects",
        description="Remove the objects that were not used for longest.",
    )
    parser.add_argument(
        "--megabytes", type=whole(0), required=True, metavar="N", help="what may be left"
    )
    parser.set_defaults(run=_prune)
    return parser


def _info(args: argparse.Namespace) -> None:
    store = ObjectStore(object_directory())
    usage = store.usage()
    if args.json:
        path = None if store.directory is None else str(store.directory)
        print(json.dumps({"directory": path, **asdict(usage), "limit": store.limit}))
        return
    if store.directory is None:
        print("no object code is kept")
        return
    print(
        f"{usage.objects} kernels, {usage.num_bytes / 1e6:.1f} MB of at most "
        f"{store.limit / 1e6:.0f} MB, in {store.directory}"
    )


def _prune(args: argparse.Namespace) -> None:
    store = ObjectStore(object_directory())
    before = store.usage()
    left = store.prune(args.megabytes * 1_000_000)
    if args.json:
        print(json.dumps({"removed": before.objects - left.objects, **asdict(left)}))
        return
    print(f"removed {before.objects - left.objects} kernels; {left.objects} are left")
