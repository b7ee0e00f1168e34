# SPDX-License-Identifier: Apache-2.0
"""Write the schedules that are compared with the one searched for.

python -m peer.baselines MODEL THREADS MAX_NUM_GROUPS SEQUENTIAL.json GREEDY.json BARRIERS.json
"""

from __future__ import annotations

import sys
from dataclasses import replace

from peer.instructions import target
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.options import Options
from tvm_ios.target import resolve


def main() -> None:
    """The greedy schedule has a limit of groups, too."""
    model, threads, groups, *paths = sys.argv[1:]
    options = Options(max_num_groups=int(groups))
    scheduler = Scheduler.prepare(
        load_model(model), resolve(target(), threads=int(threads)), options=options
    )
    sequential = scheduler.sequential()
    barriers = replace(sequential, synchronization="barrier")
    for schedule, path in zip((sequential, scheduler.greedy(), barriers), paths, strict=True):
        schedule.save(path)


if __name__ == "__main__":
    main()
