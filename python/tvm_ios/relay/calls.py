# SPDX-License-Identifier: Apache-2.0
"""The call graph of a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from ..support.errors import RelayError


def check_calls(
    calls: Mapping[str, Sequence[str]], error: Callable[[str, int, str], RelayError]
) -> None:
    """Check that all called functions exist and that none is recursive.

    Parameters
    ----------
    calls : mapping of str to sequence of str
        The functions that each function of a module calls.
    error : callable
        Returns the error for a call, given the caller, the index of the call, and a message.

    Raises
    ------
    RelayError
        The result of ``error``.
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
