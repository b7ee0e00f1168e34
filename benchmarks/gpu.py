# SPDX-License-Identifier: Apache-2.0
"""Everything that is to be known of a GPU, in phases that each end within a given time.

Steps run one after another, each in a process of its own: the self-test, the answers of whole
networks, others that run them, the tests that need a GPU, the searches, and the CPU of the machine.
After each of them its result is in the folder. When the time is over, run it again: it goes on with
what is not done.

It needs no virtual environment: the package, TVM and PyTorch may come from PYTHONPATH, and the C++
library from TVM_IOS_LIBRARY_PATH.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

try:
    from gpu_phases.results import FolderError, Results
    from gpu_phases.runner import Phase
    from gpu_phases.steps import CPU, KINDS, NETWORKS, TOLERANCE, Request, plan
    from gpu_phases.tables import summary
    from tvm_ios_env.gpu import gpus
    from tvm_ios_env.report import collect
except ImportError as missing:
    print(
        f"error: {missing}; put the folder with tvm_ios and tvm on PYTHONPATH, both pieces "
        "unpacked.",
        file=sys.stderr,
    )
    sys.exit(4)

_USER_ERROR, _INTERRUPTED = 4, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps that fit; returns the exit status."""
    args = _arguments(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is started is ended, too
    try:
        if args.table is not None:
            print(_table(args.table))
            return 0
        request = _request(args)
        results = Results(args.out, _about(request))
        phase = Phase(results, 60 * args.minutes, request.device_id, args.again)
        print(phase.run(plan(request)))
    except FolderError as error:
        print(f"error: {error}", file=sys.stderr)
        return _USER_ERROR
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _request(args: argparse.Namespace) -> Request:
    request = Request(
        networks=args.networks,
        device_id=args.device_id,
        precision=args.precision,
        cudnn=args.cudnn,
        kinds=args.only,
    )
    return request if args.threads is None else replace(request, threads=args.threads)


def _about(request: Request) -> dict[str, Any]:
    """The device, and what is installed.

    Raises
    ------
    FolderError
        When there is no such GPU, and steps need one.
    """
    environment, known = collect(), gpus()
    if request.device_id < len(known.devices):
        device = known.devices[request.device_id]
    elif set(request.kinds) == {CPU}:
        device = environment["cpu"]["name"]
    else:
        reason = known.reason or f"device {request.device_id} is none of {len(known.devices)}"
        raise FolderError(f"There is no GPU: {reason}. For the CPU's figures give --only {CPU}.")
    return {"device": device, "environment": environment}


def _table(folder: Path) -> str:
    """The summary of a folder, made anew.

    Raises
    ------
    FolderError
        When it has no results.
    """
    try:
        about = json.loads((folder / "about.json").read_text())
    except (OSError, ValueError) as error:
        raise FolderError(f"{folder} has no results; name the folder that --out named.") from error
    return summary(about, Results(folder, about).steps)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=8, help="after which no step runs (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("gpu-results"),
        help="folder of results (default: %(default)s)",
    )
    parser.add_argument(
        "--only", type=_kinds, default=KINDS, metavar="KIND,...", help=f"of {', '.join(KINDS)}"
    )
    parser.add_argument(
        "--again",
        type=_names,
        default=[],
        metavar="STEP,...",
        help="steps to run once more; failed for all that have failed",
    )
    parser.add_argument(
        "--networks", type=_names, default=NETWORKS, metavar="NAME,...", help="of the zoo"
    )
    parser.add_argument("--device-id", type=int, default=0, metavar="N")
    parser.add_argument("--precision", choices=list(TOLERANCE), default="fp32")
    parser.add_argument("--cudnn", action="store_true", help="let cuDNN compute convolutions")
    parser.add_argument(
        "--threads",
        type=lambda text: [int(number) for number in text.split(",")],
        metavar="N,...",
        help="of the runs on the CPU (default: 1, 2, 4, ... up to all cores)",
    )
    parser.add_argument(
        "--table", type=Path, metavar="FOLDER", help="print the summary of such a folder, and end"
    )
    return parser.parse_args(argv)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _kinds(text: str) -> list[str]:
    unknown = set(_names(text)) - set(KINDS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no kind of step: {', '.join(sorted(unknown))}")
    return _names(text)


if __name__ == "__main__":
    sys.exit(main())
