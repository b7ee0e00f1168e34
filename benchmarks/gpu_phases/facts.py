# SPDX-License-Identifier: Apache-2.0
"""What machine the figures are from, and what of."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tvm_ios_env.gpu import gpus
from tvm_ios_env.report import collect

_SECONDS = 10.0  # that a program may take
_COMMANDS = {
    "nvidia_smi": "nvidia-smi --format=csv,noheader --query-gpu=name,driver_version,memory.total,"
    "clocks.sm,clocks.max.sm,power.limit,compute_mode",
    "nvcc": "nvcc --version | tail -n 2",
    "lscpu": "lscpu",
    "commit": "git describe --always --dirty",
}


class NoGpuError(Exception):
    """There is no such GPU; the message says why."""


def facts(device_id: int, *, needs_gpu: bool) -> dict[str, Any]:
    """Describe the device, and what is installed.

    Raises
    ------
    NoGpuError
        When there is no such GPU, and steps need one.
    """
    environment, known = collect(), gpus()
    if device_id < len(known.devices):
        device = known.devices[device_id]
    elif needs_gpu:
        raise NoGpuError(known.reason or f"device {device_id} is none of {len(known.devices)}")
    else:
        device = environment["cpu"]["name"]
    told = {name: _output(command) for name, command in _COMMANDS.items()}
    return {"device": device, "environment": environment, **told}


def _output(command: str) -> str:
    """What a command prints, or why it did not."""
    try:
        done = subprocess.run(
            command, shell=True, cwd=Path(__file__).parent, capture_output=True, text=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"took more than {_SECONDS:.0f} s"
    return (done.stdout or done.stderr).strip()
