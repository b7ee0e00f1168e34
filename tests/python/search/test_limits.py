# SPDX-License-Identifier: Apache-2.0
"""Searches and partitions that would take too long, or too much memory."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

from support.registry_fuzz import sanitized

RANDOM_WIRING = """
import random
import numpy as np
from tvm_ios.search import Dag, ScheduleSpace, best_first, endings, find_schedule, partition

def random_wiring(num_ops):
    draw = random.Random(3)
    nearby = [(draw.randrange(max(0, i - 40), i), i) for i in range(1, num_ops) for _ in range(2)]
    return Dag(num_ops, nearby)
"""

ENDLESS = {
    "search": "find_schedule(Dag(60), lambda c: np.ones(len(c)), max_num_groups=2, "
    "max_group_size=None)",
    "best first": "best_first(Dag(60), lambda c: np.ones(len(c)), max_transitions=1 << 60, "
    "max_candidates=1 << 60, seconds=1e9)",
    "partition": "partition(random_wiring(20_000), 2_000)",
}


@pytest.mark.slow
@pytest.mark.parametrize("work", ENDLESS)
def test_ctrl_c_stops_long_work(work: str) -> None:
    """Within a second of processor time, whatever else the machine does."""
    script = f"""{RANDOM_WIRING}
import time
print("ready", flush=True)
try:
    {ENDLESS[work]}
except KeyboardInterrupt:
    print(time.process_time(), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        times = psutil.Process(process.pid).cpu_times()
        process.send_signal(signal.SIGINT)
        try:
            interrupted = float(process.communicate(timeout=10)[0])
        finally:
            process.kill()
        assert interrupted - (times.user + times.system) < 1.0
        assert process.returncode == 0


TOO_LARGE = {
    "a block": ("ScheduleSpace(random_wiring(200))", 1024),
    "no limits": ("ScheduleSpace(Dag(60), max_group_size=None, max_num_groups=None)", 256),
    "endings": ("endings(Dag(60), max_group_size=None, max_num_groups=None)", 256),
    "one group": ("endings(Dag(61, [(i, 60) for i in range(60)]), max_group_size=None)", 256),
    "cuts": ("partition(random_wiring(100_000), 60)", 64),
}
"""Work, and how many MiB it may take: where there is more, it would take all of it."""


@pytest.mark.slow
@pytest.mark.skipif(sanitized(), reason="AddressSanitizer reserves all addresses")
@pytest.mark.parametrize(("work", "mebibytes"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_takes_too_much_memory_says_so(work: str, mebibytes: int) -> None:
    """At a quarter of what there is, before any allocation fails."""
    script = f"""{RANDOM_WIRING}
import resource
from pathlib import Path
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + ({mebibytes} << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    {work}
except Exception as error:
    print(type(error).__name__, error)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.startswith("OptionError the ")
    assert "takes more than" in done.stdout or "take more than" in done.stdout
    assert "choose a smaller max_block_size" in done.stdout
