# SPDX-License-Identifier: Apache-2.0
"""Whole networks on the GPU of this machine, ours beside PyTorch's: one command for a lent GPU.

Each network is a run of ``tvm-ios bench`` of its own, within its share of the time that is given.
The file of results is written after each, and added to by later runs on the same device; stages
that were measured are kept in the database, so that a search that took too long goes on next time.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_ios.cuda_target import describe
from tvm_ios.errors import TvmIosError
from tvm_ios.files import replacing
from tvm_ios_env.report import collect

# What is known soonest comes first; what takes the longest to search comes last.
NETWORKS = ("squeezenet", "inception_v3", "googlenet", "randwire_large", "nasnet_a_large")
RESULTS = Path(__file__).parent / "results"

_TOLERANCE = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 5e-2, "bf16": 2e-1}
_LEAST = 60  # seconds that a network is given, however late it is
_ROWS = {  # by what JSON calls them
    "launched": "no graph",
    "sequential": "sequential",
    "greedy": "greedy",
    "scheduled": "scheduled",
    "torch_compile": "torch.compile",
    "torch_cudnn": "PyTorch, cuDNN",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the networks, write the results, print the table."""
    args = _arguments(argv)
    if args.table is not None:
        print(table(json.loads(Path(args.table).read_text())))
        return 0
    try:
        device = describe(args.device_id)
    except TvmIosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    short = re.sub(r"[^a-z0-9]+", "-", device.name.lower().removeprefix("nvidia ")).strip("-")
    path = args.output or RESULTS / f"gpu-{short}-{args.precision}.json"
    about = {"device": device.name, "arch": device.arch, "precision": args.precision}
    results = {**_known(path, about), **about, "environment": collect()}
    end = time.monotonic() + 60 * args.minutes
    names = args.models.split(",")
    for number, name in enumerate(names):
        share = max((end - time.monotonic()) / (len(names) - number), _LEAST)
        print(f"{name}: at most {share / 60:.1f} minutes", file=sys.stderr, flush=True)
        results["networks"][name] = bench(name, args, share)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as (draft,):
            draft.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{path}\n\n{table(results)}")
    return 0


def bench(name: str, args: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """What ``tvm-ios bench`` finds on a network, or why it finds nothing."""
    command = [sys.executable, "-m", "tvm_ios", "bench", f"zoo:{name}", "--json"]
    command += ["--target", "cuda", "--device-id", str(args.device_id)]
    command += ["--precision", args.precision, *(["--cudnn"] if args.cudnn else [])]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"took more than {seconds:.0f} s; run it again, and it goes on"}
    if done.returncode != 0:
        return {"failure": f"tvm-ios bench ended with {done.returncode}; see what it said"}
    result = json.loads(done.stdout)
    if not result["max_rel_error"] <= _TOLERANCE[args.precision]:  # NaN is no agreement
        return {**result, "failure": f"wrong by {result['max_rel_error']:.1e}"}
    return {**result, "command_s": round(time.monotonic() - begin, 1)}


def table(results: Mapping[str, Any]) -> str:
    """The networks in rows, milliseconds; below them geometric means of the ratios."""
    head = f"{results['device']} ({results['arch']}), {results['precision']}, batch 1: milliseconds"
    lines = [head, "", _row(["network", *_ROWS.values()]), _row(["---", *["---:"] * len(_ROWS)])]
    failures = []
    for name, result in results["networks"].items():
        if "failure" in result:
            failures.append(f"{name}: {result['failure']}")
        else:
            times = _milliseconds(result)
            lines.append(_row([name, *(f"{times[n]:.3f}" if n in times else "–" for n in _ROWS)]))
    means = (_mean(results, name) for name in _ROWS)
    lines.append(_row(["÷ scheduled", *("–" if m is None else f"{m:.2f}" for m in means)]))
    return "\n".join([*lines, "", *_left_out(results), *failures]).rstrip()


def _milliseconds(result: Mapping[str, Any]) -> dict[str, float]:
    ours = {name: result[f"{name}_ms"] for name in _ROWS if f"{name}_ms" in result}
    peers = {name: peer["ms"] for name, peer in result.get("peers", {}).items() if "ms" in peer}
    return {**ours, **peers}


def _mean(results: Mapping[str, Any], name: str) -> float | None:
    """The geometric mean of the ratio to ours; of the networks that both have run."""
    known = (_milliseconds(r) for r in results["networks"].values() if "failure" not in r)
    ratios = [times[name] / times["scheduled"] for times in known if name in times]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def _left_out(results: Mapping[str, Any]) -> Iterator[str]:
    for network, result in results["networks"].items():
        for name, peer in result.get("peers", {}).items():
            if "left_out" in peer:
                yield f"{network}, {_ROWS[name]}: {peer['left_out']}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _known(path: Path, about: Mapping[str, str]) -> dict[str, Any]:
    """What earlier runs have found on this device."""
    if path.exists():
        known = json.loads(path.read_text())
        if all(known.get(key) == value for key, value in about.items()):
            return known
    return {"networks": {}}


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(NETWORKS), help="of the zoo, in this order")
    parser.add_argument("--minutes", type=float, default=25, help="for all together (default: 25)")
    parser.add_argument("--device-id", type=int, default=0)
    parser.add_argument("--precision", choices=sorted(_TOLERANCE), default="fp32")
    parser.add_argument("--cudnn", action="store_true", help="let cuDNN compute convolutions")
    parser.add_argument("--output", type=Path, help="the file of results")
    parser.add_argument("--table", metavar="FILE", help="print the table of such a file, and end")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
