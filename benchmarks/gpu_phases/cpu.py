# SPDX-License-Identifier: Apache-2.0
"""A network on the machine's CPU beside ONNX Runtime, on one number of threads, by ``peers.py``."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import peers

_ROUNDS = 7


def main() -> None:
    """Print medians as JSON; all that was measured is in a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    command = ["--models", args.network, "--threads", str(args.threads), "--json", str(args.json)]
    with contextlib.redirect_stdout(sys.stderr):
        status = peers.main([*command, "--peers", "ours,onnxruntime", "--rounds", str(_ROUNDS)])
    if status != 0:
        sys.exit(status)
    (measured,) = json.loads(args.json.read_text())["results"]
    print(json.dumps(_summary(args, measured)))


def _summary(args: argparse.Namespace, measured: dict[str, Any]) -> dict[str, Any]:
    entries = measured["entries"]
    result = {
        "network": args.network,
        "threads": args.threads,
        "median_ms": {n: e["median_ms"] for n, e in entries.items() if e["failure"] is None},
        "left_out": {n: e["failure"] for n, e in entries.items() if e["failure"] is not None},
    }
    if measured["failure"] is not None:
        result["failure"] = measured["failure"]
    return result


if __name__ == "__main__":
    main()
