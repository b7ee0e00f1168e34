# SPDX-License-Identifier: Apache-2.0
"""The parts of a self-test: groups of checks, and their outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

OK, FAILED, LEFT_OUT, NOT_RUN = "ok", "failed", "left out", "not run"
"""The statuses of a check. "left out": it does not apply to this machine. "not run": it depends on
a check that failed."""


class KernelFault(Exception):
    """A wrong result of a check; the process that computed it can still be used."""


class LeftOut(Exception):
    """A check that does not apply to this machine; the message tells the reason."""


@dataclass(frozen=True)
class Settings:
    """The settings of a self-test.

    Attributes
    ----------
    target : str
        The target, as the user gave it.
    device_id : int
        The GPU to check if the target is ``cuda``.
    threads : int or None
        The number of worker threads on a CPU; None for one per core.
    cudnn : bool
        Whether to check cuDNN, too.
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
        The name.
    run : callable
        The check. It returns details of a success, or raises :class:`KernelFault`, :class:`LeftOut`
        or any other exception. After another exception the process is not used any more.
    """

    name: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Group:
    """Checks that share a process as long as none of them crashes.

    Attributes
    ----------
    name : str
        The name.
    checks : tuple of Check
        The checks.
    required : bool
        Whether all later checks depend on these.
    """

    name: str
    checks: tuple[Check, ...]
    required: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check.

    Attributes
    ----------
    group, name : str
        The names of the group and of the check.
    status : str
        :data:`OK`, :data:`FAILED`, :data:`LEFT_OUT` or :data:`NOT_RUN`.
    detail : str
        Details of a success, or a sentence about the failure.
    seconds : float
        The duration.
    log : str
        The end of the process's standard error; only if it crashed.
    """

    group: str
    name: str
    status: str
    detail: str
    seconds: float = 0.0
    log: str = ""
