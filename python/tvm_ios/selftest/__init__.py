# SPDX-License-Identifier: Apache-2.0
"""Check on this machine, part by part, that what the package emits computes the right numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ..support.errors import OptionError
from ..target import is_cuda, resolve
from .checks import FAILED, LEFT_OUT, NOT_RUN, OK, Outcome, Settings
from .supervisor import run_plan

__all__ = ["FAILED", "LEFT_OUT", "NOT_RUN", "OK", "Outcome", "Settings", "run"]

CPU_PLAN, CUDA_PLAN = "tvm_ios.selftest.cpu:plan", "tvm_ios.selftest.cuda:plan"


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
    cuda = is_cuda(settings.target)
    if cuda and settings.threads is not None:
        raise OptionError("The number of threads is for a CPU; leave it out for a CUDA device.")
    if settings.cudnn and not cuda:
        raise OptionError("cuDNN is for CUDA devices; leave it out for a CPU.")
    if not cuda:
        resolve(settings.target, threads=settings.threads)  # which raises what is wrong with them
    return run_plan(CUDA_PLAN if cuda else CPU_PLAN, settings)
