# SPDX-License-Identifier: Apache-2.0
"""Which functions call which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from ...support.errors import RelayError


def check_calls(
    calls: Mapping[str, Sequence[str]], error: Callable[[str, int, str], RelayError]
) -> None:
    """Check that functions are there when they are called, and do not call themselves.

    Parameters
    ----------
    calls : mapping of str to sequence of str
        What each function of a module calls.
    error : callable
        The error for a call: of this function, the number of the call in it, a sentence.

    Raises
    ------
    RelayError
        As ``error`` makes it.
    """
    for caller, called in calls.items():
        for i, name in enumerate(called):
            if name not in calls:
                raise error(caller, i, f"There is no function @{name} in this module.")
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as cycle:
        callee, caller = cycle.args[1][:2]
        raise error(
            caller,
            calls[caller].index(callee),
            f"@{callee} calls itself; recursive functions cannot be converted.",
        ) from None
