# SPDX-License-Identifier: Apache-2.0
"""``python -m faults``: kill processes of tvm-ios, and look at what is left."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

# What is forked has one thread; NumPy's linear algebra has more.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many processes")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--first", type=int, default=1, help="the number of the first round")
    parser.add_argument("--actions", help="which, with commas between them (default: all)")
    args = parser.parse_args()
    from .actions import ACTIONS  # loads TVM
    from .campaign import Campaign

    print(f"seed {args.seed}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    names = args.actions.split(",") if args.actions else list(ACTIONS)
    campaign = Campaign(root, args.seed, names)
    campaign.complete_all("before")
    print(*campaign.failures, sep="\n", flush=True)
    told = len(campaign.failures)
    for number in range(args.first, args.first + args.count):
        campaign.round(number)
        for failure in campaign.failures[told:]:
            print(failure, flush=True)
        told = len(campaign.failures)
        if number % 50 == 0:
            print(f"{number} rounds, {told} failures", flush=True)
    campaign.complete_all("after")
    print(campaign.report())
    for failure in campaign.failures[told:]:
        print(failure)
    if not campaign.failures:
        shutil.rmtree(root)
    else:
        print(f"{root} holds what is left; seed {args.seed}")
    return bool(campaign.failures)


if __name__ == "__main__":
    sys.exit(main())
