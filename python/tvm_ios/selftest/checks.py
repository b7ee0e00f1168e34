# SPDX-License-Identifier: Apache-2.0
"""What a self-test consists of: checks in groups, and what came of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

OK, FAILED, LEFT_OUT, NOT_RUN = "ok", "failed", "left out", "not run"
"""What a check may end with. What is left out does not apply here; what is not run needs something
that has failed."""


class WrongResult(Exception):
    """A check's result that is not what it should be; the process that computed it is sound."""


class LeftOut(Exception):
    """A check that does not apply to this machine; the message says why."""


@dataclass(frozen=True)
class Settings:
    """What a self-test is run with.

    Attributes
    ----------
    target : str
        As the user names it.
    device_id : int
        Which GPU, where the target is one.
    threads : int or None
        Worker threads on a CPU; None for all cores.
    cudnn : bool
        Whether cuDNN is checked, too.
    """

    target: str
    device_id: int = 0
    threads: int | None = None
    cudnn: bool = False


@dataclass(frozen=True)
class Check:
    """One line of a self-test.

    Attributes
    ----------
    name : str
    run : callable
        Return what is worth telling of a success. Raise :class:`WrongResult`, :class:`LeftOut`, or
        anything else, after which the process is not used any more.
    """

    name: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Group:
    """Checks that share a process as long as none of them faults.

    Attributes
    ----------
    name : str
    checks : tuple of Check
    required : bool
        Whether nothing after one of its checks can succeed where that fails.
    """

    name: str
    checks: tuple[Check, ...]
    required: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of one check.

    Attributes
    ----------
    group, name : str
    status : str
        :data:`OK`, :data:`FAILED`, :data:`LEFT_OUT` or :data:`NOT_RUN`.
    detail : str
        What was seen, or a sentence that says what is wrong.
    seconds : float
    log : str
        What the process wrote to standard error last; only where it faulted.
    """

    group: str
    name: str
    status: str
    detail: str
    seconds: float = 0.0
    log: str = ""
