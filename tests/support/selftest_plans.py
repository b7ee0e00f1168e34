# SPDX-License-Identifier: Apache-2.0
"""Plans for ``selftest/test_selftest.py``, which names them: checks that fault in every way."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tvm_ios.selftest import cuda
from tvm_ios.selftest.checks import Check, Group, KernelFault, LeftOut, Settings

NOTHING = "none"  # a target of these plans, whose checks need no machine


def plan(settings: Settings) -> list[Group]:
    """Faults between checks that are right; the target names the required check that fails."""

    def needed() -> str:
        if settings.target != NOTHING:
            raise KernelFault("The device is not there.")
        return "found"

    return [
        Group("device", (Check("first", needed), Check("second", _process)), required=True),
        Group(
            "faults",
            (
                Check("right", _process),
                Check("wrong", _wrong),
                Check("right after wrong", _process),
                Check("crash", _crash),
                Check("right after crash", _process),
                Check("hang", _hang),
                Check("error", _error),
                Check("end", _end),
                Check("left out", _leave_out),
                Check("right in the end", _process),
            ),
        ),
        Group("other", (Check("right", _process),)),
    ]


def _process() -> str:
    return str(os.getpid())


def _wrong() -> str:
    raise KernelFault("The result is off.")


def _crash() -> str:
    print("said before the crash", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
    return ""


def _hang() -> str:
    time.sleep(600)
    return ""


def _error() -> str:
    raise RuntimeError("CUDA error: an illegal memory access\nwas encountered")


def _end() -> str:
    print("a library said goodbye", file=sys.stderr, flush=True)
    os._exit(3)


def _leave_out() -> str:
    raise LeftOut("not on this machine")


def first_of_cuda(settings: Settings) -> list[Group]:
    """Of a GPU's groups those that the fake driver runs in seconds."""
    return [group for group in cuda.plan(settings) if group.name in ("device", "launches")]


def products_of_cuda(settings: Settings) -> list[Group]:
    """Of a GPU's checks in half precision those in which a product reads another's result."""
    return [
        Group(group.name, tuple(c for c in group.checks if c.name.startswith("attention")))
        for group in cuda.plan(settings)
        if group.name in ("kernels in tf32", "kernels in fp16", "kernels in bf16")
    ]


def note_process(_settings: Settings) -> list[Group]:
    """A check that writes down its process and waits, see ``test_an_interrupt_ends_all``."""

    def wait() -> str:
        Path(os.environ["NOTED"]).write_text(str(os.getpid()))
        time.sleep(600)
        return ""

    return [Group("waiting", (Check("wait", wait),))]
