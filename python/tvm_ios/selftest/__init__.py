# SPDX-License-Identifier: Apache-2.0
"""The self-test: checks, part by part, that generated code is correct on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from ..backend.registry import kind_of
from ..schedule.options import Options
from ..support.errors import OptionError
from ..target import CPU, CUDA
from .checks import FAILED, LEFT_OUT, NOT_RUN, OK, Outcome, Settings
from .supervisor import run_plan

__all__ = ["FAILED", "LEFT_OUT", "NOT_RUN", "OK", "PLANS", "Outcome", "Settings", "run"]

PLANS = {CPU: "tvm_ios.selftest.cpu:plan", CUDA: "tvm_ios.selftest.cuda:plan"}


def run(settings: Settings) -> Iterator[Outcome]:
    """Check the components that the target depends on, the cheapest first.

    Yields
    ------
    Outcome
        The outcome of each check, as it ends.

    Raises
    ------
    TargetError
        If the target is not valid.
    OptionError
        If the settings contain an option that does not apply to the target.
    """
    kind = kind_of(settings.target)
    options = Options(cudnn=settings.cudnn)
    kind.check_options(settings.target, options, settings.threads, settings.device_id)
    if kind.name not in PLANS:
        raise OptionError(f"There is no self-test for targets of kind {kind.name!r}.")
    return run_plan(PLANS[kind.name], settings)
