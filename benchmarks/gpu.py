# SPDX-License-Identifier: Apache-2.0
"""Everything that is to be known of a lent machine with a GPU, the most valuable figures first.

Steps run in processes of their own, within limits: the self-test and the answers of networks, side
by side; then networks on the GPU and on the cores of the CPU, one after another; then tests. After
each of them what is known is in five files of the folder OUT. When the time is over, run it again:
it goes on with what is not done.

It needs no virtual environment: the package, TVM and PyTorch may come from PYTHONPATH, and the C++
library from TVM_IOS_LIBRARY_PATH.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

try:
    from gpu_phases.facts import NoGpuError, facts
    from gpu_phases.results import FACTS, FolderError, Results, read
    from gpu_phases.runner import Phase
    from gpu_phases.steps import CPU, KINDS, NETWORKS, TOLERANCE, Request, plan
    from gpu_phases.tables import summary
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
            print(_table(args.table), end="")
            return 0
        known = facts(args.device_id, needs_gpu=set(args.only) != {CPU})
        request = _request(args)
        results = Results(request.state, args.out, known)
        Phase(results, 60 * args.minutes, request.device_id, args.again).run(plan(request))
    except NoGpuError as error:
        sentence = f"There is no GPU: {error}. For the CPU's figures give --only {CPU}."
        print(f"error: {sentence}", file=sys.stderr)
        return _USER_ERROR
    except FolderError as error:
        print(f"error: {error}", file=sys.stderr)
        return _USER_ERROR
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _request(args: argparse.Namespace) -> Request:
    state = args.state or args.out.with_name(f"{args.out.name}-state")
    request = Request(
        state=state.resolve(),
        networks=args.networks,
        device_id=args.device_id,
        precision=args.precision,
        cudnn=args.cudnn,
        kinds=args.only,
    )
    return request if args.threads is None else replace(request, threads=args.threads)


def _table(folder: Path) -> str:
    """The summary of what was published, made anew.

    Raises
    ------
    FolderError
        When there are no results.
    """
    known = read(folder)
    if FACTS not in known:
        raise FolderError(f"{folder} has no results; name the folder that --out named.")
    return summary(known)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    option = parser.add_argument
    option("--minutes", type=float, default=8, help="until all is written (default: %(default)s)")
    option("--out", type=Path, default=Path("gpu-results"), metavar="FOLDER",
           help="what is published (default: %(default)s)")  # fmt: skip
    option("--state", type=Path, metavar="FOLDER",
           help="where steps work, and go on (default: that of --out with -state)")  # fmt: skip
    option("--only", type=_kinds, default=KINDS, metavar="KIND,...", help=f"of {', '.join(KINDS)}")
    option("--again", type=_names, default=[], metavar="STEP,...",
           help="steps to run once more; failed for all that have failed")  # fmt: skip
    option("--networks", type=_names, default=NETWORKS, metavar="NAME,...",
           help="of the zoo; the first two are searched on the GPU")  # fmt: skip
    option("--device-id", type=int, default=0, metavar="N")
    option("--precision", choices=list(TOLERANCE), default="fp32", help="on the GPU")
    option("--cudnn", action="store_true", help="let cuDNN compute convolutions")
    option("--threads", type=_numbers, metavar="N,...",
           help="of the CPU (default: all cores, 1, and the powers of two between, "
           "falling)")  # fmt: skip
    option("--table", type=Path, metavar="FOLDER", help="print the summary of such a folder")
    return parser.parse_args(argv)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _kinds(text: str) -> list[str]:
    unknown = set(_names(text)) - set(KINDS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no kind of step: {', '.join(sorted(unknown))}")
    return _names(text)


if __name__ == "__main__":
    sys.exit(main())
