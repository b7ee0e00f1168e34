# SPDX-License-Identifier: Apache-2.0
"""Whole networks side by side: ours, ONNX Runtime, OpenVINO and torch.compile.

All run the same ONNX file on the same number of threads, each in its own process, in fp32 or, with
``auto`` and ``openvino_default``, in what is their own choice. In every round each of them runs for
a moment, after the others have come to rest, so that a drift of the machine hits all alike.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import machine
from peer.contender import CONTENDERS, OURS, PEERS
from peer.contest import Contest, Plan
from peer.instructions import add_option, limited
from peer.libraries import Search
from peer.models import expand, load
from peer.process import ContenderError
from peer.record import Comparison, Result, from_json
from peer.report import render
from tvm_ios.errors import OptionError, TvmIosError
from tvm_ios.support.files import replacing
from tvm_ios.target import available_cores

_INTERRUPTED = 128 + 2


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, or render what an earlier comparison has written; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        if options.table:
            print(render(read(options.table)), end="")
        else:
            _compare(options)
    except (TvmIosError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--models",
        default="all",
        metavar="NAME,...",
        help="networks of the zoo, or ONNX files (default: all of the zoo but its test variants)",
    )
    parser.add_argument(
        "--peers",
        default=",".join(("ours", *PEERS)),
        metavar="NAME,...",
        help="who takes part (default: %(default)s); ours may be taken apart: " + ",".join(OURS),
    )
    parser.add_argument("--threads", type=whole, default=available_cores(), metavar="N")
    parser.add_argument("--batch", type=whole, default=1, metavar="B")
    parser.add_argument("--rounds", type=whole, default=15, metavar="R")
    parser.add_argument(
        "--window", type=float, default=0.25, metavar="S", help="seconds of a turn (default: 0.25)"
    )
    parser.add_argument("--max-group-size", type=whole, default=3, metavar="N", help="IOS's r")
    parser.add_argument("--max-num-groups", type=whole, default=8, metavar="N", help="IOS's s")
    add_option(parser)
    parser.add_argument("--json", metavar="FILE", help="write all figures, after each network")
    parser.add_argument("--table", metavar="FILE", help="only print the tables of such a file")
    return parser


def _compare(options: argparse.Namespace) -> None:
    names, models = limited(_contenders(options.peers), options), expand(options.models)
    taking_part = {name: CONTENDERS[name] for name in names}
    search = Search(options.threads, options.max_group_size, options.max_num_groups)
    comparison = Comparison(
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        machine=asdict(machine.describe()),
        threads=options.threads,
        batch=options.batch,
        settings={
            **asdict(search),
            "rounds": options.rounds,
            "window_s": options.window,
            "avx2": options.avx2,
        },
        versions=versions(names),
        contenders={n: {"title": c.title, "settings": c.settings} for n, c in taking_part.items()},
    )
    save(comparison, options.json)  # a path that cannot be written is found out now
    for model in models:
        plan = Plan(names, search, options.rounds, options.window, progress(model))
        comparison.results.append(_result(model, options.batch, plan))
        save(comparison, options.json)
    print(render(comparison), end="")


def _result(name: str, batch: int, plan: Plan) -> Result:
    """The comparison on one network, or why there is none."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return Contest(load(name, batch, Path(directory)), plan, Path(directory)).run()
        except (ContenderError, TvmIosError) as error:
            return Result(name, failure=str(error))


def _contenders(names: str) -> list[str]:
    """The entries that are asked for, in the order of the table."""
    wanted = {n for name in names.split(",") for n in (OURS if name == "ours" else (name,))}
    unknown = ", ".join(sorted(wanted - CONTENDERS.keys()))
    if unknown:
        known = ", ".join(("ours", *CONTENDERS))
        raise OptionError(f"There is no contender {unknown}; there are: {known}.")
    return [name for name in CONTENDERS if name in wanted]


def versions(names: Sequence[str], others: Sequence[str] = ()) -> dict[str, str]:
    """What the figures depend on; a package that is missing is reported by its contender."""
    packages = dict.fromkeys([p for name in names for p in CONTENDERS[name].packages] + [*others])
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except FileNotFoundError:  # no git: the version has to do
        return found
    if done.returncode == 0:
        found["commit"] = done.stdout.strip()
    return found


def save(comparison: Comparison, path: str | None) -> None:
    """Write all figures, if there is a file for them."""
    if path is not None:
        with replacing(path) as (draft,):
            draft.write_text(json.dumps(comparison.to_json(), indent=1) + "\n")


def read(path: str) -> Comparison:
    """Return the figures of a file.

    Raises
    ------
    OptionError
        If it is no such file.
    """
    try:
        return from_json(json.loads(Path(path).read_text()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(f"{path} is no file of peers.py --json: {error}.") from error


def progress(model: str) -> Callable[[str], None]:
    """Say on standard error what is being done; on a terminal each in the place of the last."""
    form = "\r{}: {:<60}" if sys.stderr.isatty() else "{}: {}\n"
    return lambda text: print(form.format(model, text), end="", file=sys.stderr, flush=True)


def whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


if __name__ == "__main__":
    sys.exit(main())
