# SPDX-License-Identifier: Apache-2.0
"""What else happens on the machine while networks are called."""

from __future__ import annotations

from dataclasses import dataclass

QUIET = "quiet"


@dataclass(frozen=True)
class Condition:
    """A condition by its name.

    Attributes
    ----------
    name, title : str
        For the command line, and for tables.
    busy, nice : int
        How many processes compute beside, and their niceness.
    bound : bool
        Whether each of them stays on one core, which leaves cores of unequal speed.
    callers : int
        How many threads call the network at the same time.
    quota : float
        How many cores' time each process is granted; 0 for no quota.
    companion : bool
        Whether one more thread calls another network.
    """

    name: str
    title: str
    busy: int = 0
    nice: int = 0
    bound: bool = False
    callers: int = 1
    quota: float = 0.0
    companion: bool = False


CONDITIONS = {
    condition.name: condition
    for condition in (
        Condition(QUIET, "quiet"),
        Condition("busy1", "1 busy process", busy=1),
        Condition("busy2", "2 busy processes", busy=2),
        Condition("busy4", "4 busy processes", busy=4),
        Condition("nice19", "1 busy process, nice 19", busy=1, nice=19),
        Condition("bound1", "1 busy process, bound to a core", busy=1, bound=True),
        Condition("callers4", "4 callers", callers=4),
        Condition("quota", "quota of 1.5 cores", quota=1.5),
        Condition("small_quota", "quota of 0.1 cores", quota=0.1),
        Condition("two_models", "two models at once", companion=True),
    )
}
"""In the order in which they are measured; those that share processes are neighbours."""
