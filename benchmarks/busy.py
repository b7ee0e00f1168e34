# SPDX-License-Identifier: Apache-2.0
"""Latencies of ours, ONNX Runtime and OpenVINO on a machine that others use.

    python benchmarks/busy.py --json FILE [--networks NAME,...] [--conditions NAME,...]
    python benchmarks/busy.py --summary FILE

The machine is quiet, or has busy processes beside, or grants a share of its cores; or several
threads call at once. All runtimes take turns beside the same neighbours. A file that exists is
completed.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import machine
from busy_machine.conditions import CONDITIONS
from busy_machine.networks import NETWORKS, compiler_digest
from busy_machine.record import Record, Run, read
from busy_machine.rounds import Plan, measure
from busy_machine.runtimes import DEFAULT, OWN, RUNTIMES
from busy_machine.summary import render
from peer.process import ContenderError
from peers import progress, versions, whole
from tvm_ios.errors import OptionError, TvmIosError
from tvm_ios.target import available_cores

_INTERRUPTED = 128 + 2
_FOLDER = Path(__file__).parents[1] / "build" / "busy"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, or summarise what was measured; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        if options.summary:
            print(render(read(options.summary)), end="")
        else:
            _measure(options)
    except (TvmIosError, ContenderError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for option, default, known in (
        ("--networks", NETWORKS, NETWORKS),
        ("--conditions", CONDITIONS, CONDITIONS),
        ("--runtimes", DEFAULT, RUNTIMES),
    ):
        parser.add_argument(
            option,
            default=",".join(default),
            metavar="NAME,...",
            help=f"some of {', '.join(known)} (default: {', '.join(default)})",
        )
    parser.add_argument("--threads", type=whole, default=available_cores(), metavar="N")
    parser.add_argument("--search", action="store_true", help="search for our schedules")
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="of each cell (default: 3)"
    )
    parser.add_argument(
        "--slice", type=float, default=0.3, metavar="S", help="seconds of a turn (default: 0.3)"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=_FOLDER,
        metavar="PATH",
        help="where networks and libraries are kept (default: build/busy)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write, or complete, a file of JSON lines"
    )
    parser.add_argument("--summary", type=Path, metavar="FILE", help="only print such a file")
    return parser


def _measure(options: argparse.Namespace) -> None:
    """Measure what the file does not have yet."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is started is ended, too
    networks = chosen(options.networks, NETWORKS)
    conditions = chosen(options.conditions, CONDITIONS)
    runtimes = chosen(options.runtimes, RUNTIMES)
    file = options.json
    record = read(file) if file is not None and file.exists() else Record()
    record.begin(_run(options, runtimes))
    if file is not None:
        record.save(file)  # a path that cannot be written is found out now
    for network in networks:
        missing = [
            CONDITIONS[name] for name in conditions if not record.complete(network, name, runtimes)
        ]
        for _, cells in measure(network, missing, _plan(options, network, runtimes)):
            record.put(cells)
            if file is not None:
                record.save(file)
    print(render(record), end="")


def _plan(options: argparse.Namespace, network: str, runtimes: Sequence[str]) -> Plan:
    return Plan(
        runtimes,
        options.threads,
        options.search,
        options.seconds,
        options.slice,
        options.folder.resolve(),
        progress(network),
    )


def _run(options: argparse.Namespace, runtimes: Sequence[str]) -> Run:
    contenders = [RUNTIMES[name].contender for name in runtimes]
    found = versions(contenders)
    if OWN in runtimes:
        found["compiler"] = compiler_digest()
    return Run(
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        machine=asdict(machine.describe()),
        threads=options.threads,
        settings={
            "search": options.search,
            "seconds": options.seconds,
            "slice_s": options.slice,
        },
        versions=found,
        runtimes={name: RUNTIMES[name].settings for name in runtimes},
    )


def chosen(text: str, known: Iterable[str]) -> list[str]:
    """Return names from a list with commas, in the order of what is known.

    Raises
    ------
    OptionError
        When one is not known.
    """
    wanted = text.split(",")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise OptionError(f"There is no {', '.join(unknown)}; there are: {', '.join(known)}.")
    return [name for name in known if name in wanted]


if __name__ == "__main__":
    sys.exit(main())
