# SPDX-License-Identifier: Apache-2.0
"""Check on this machine, part by part, that what the package emits computes the right numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ..backend.registry import kind_of
from ..schedule.options import Options
from ..target import CPU, CUDA
from .checks import FAILED, LEFT_OUT, NOT_RUN, OK, Outcome, Settings
from .supervisor import run_plan

__all__ = ["FAILED", "LEFT_OUT", "NOT_RUN", "OK", "Outcome", "Settings", "run"]

_PLANS = {CPU: "tvm_ios.selftest.cpu:plan", CUDA: "tvm_ios.selftest.cuda:plan"}


def run(settings: Settings) -> Iterator[Outcome]:
    """Check what the target of the settings rests on, from cheap to dear.

    Yields
    ------
    Outcome
        Of each check, as it ends.

    Raises
    ------
    TargetError
        When the target is none.
    OptionError
        When the settings have what the target has no use for.
    """
    kind = kind_of(settings.target)
    kind.check_options(settings.target, Options(cudnn=settings.cudnn), settings.threads)
    return run_plan(_PLANS[kind.name], settings)
