# SPDX-License-Identifier: Apache-2.0
"""The cores that the process was given, which TVM's thread pool does not ask for."""

from __future__ import annotations

import os


def respect_affinity() -> None:
    """Keep TVM from binding threads where the process may not run on all cores.

    TVM binds the workers of its pool to the machine's first cores, whatever the process was given
    by taskset or a container. Unbound, they stay on the cores of the thread that starts them. What
    the user has set (``TVM_BIND_THREADS``) is left alone.
    """
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
        os.environ.setdefault("TVM_BIND_THREADS", "0")
