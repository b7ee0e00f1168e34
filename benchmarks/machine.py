# SPDX-License-Identifier: Apache-2.0
"""What machine a figure is from."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from tvm_ios_env.machine import Cache, data_caches, this_cpu, threads_per_core


@dataclass(frozen=True)
class Machine:
    """A CPU and its memory, as the system describes them.

    Attributes
    ----------
    cpu : str
        Model name.
    cores : int
        Hardware threads that this process may run on.
    threads_per_core : int
        Hardware threads that share one core's vector units.
    caches : tuple of Cache
        From the nearest to the farthest; empty where the system does not say.
    memory : int
        Bytes.
    system : str
        Kernel and architecture.
    """

    cpu: str
    cores: int
    threads_per_core: int
    caches: tuple[Cache, ...]
    memory: int
    system: str


def describe() -> Machine:
    """This machine."""
    cpu = this_cpu()
    return Machine(
        cpu=cpu.name,
        cores=cpu.usable,
        threads_per_core=threads_per_core(),
        caches=data_caches(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
    )
