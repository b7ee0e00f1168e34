# SPDX-License-Identifier: Apache-2.0
"""Diagnostics: conditions that slow networks down or falsify measurements without an error."""

from __future__ import annotations

from collections.abc import Mapping

from .machine import Cpu, threads_within

# Load average per core above which other processes disturb measurements.
_BUSY = 0.5


def diagnostics(cpu: Cpu, environment: Mapping[str, str], linker: str | None) -> list[str]:
    """Return a sentence for each condition that was found, with what to do.

    Parameters
    ----------
    cpu : Cpu
        The CPU.
    environment : mapping of str to str
        The environment variables.
    linker : str or None
        The C++ compiler, if there is one.
    """
    found = [_threads_of_tvm(cpu, environment), _affinity(cpu), _quota(cpu), _hyper_threads(cpu)]
    if cpu.load is not None and cpu.load > _BUSY * cpu.usable:
        found.append(
            f"Other work runs here (load {cpu.load:.1f} on {_count(cpu.usable, 'core')}): what is "
            "measured now is too slow and uneven; search when the machine is idle."
        )
    if linker is None:
        found.append("No C++ compiler was found, which links libraries; install g++.")
    return [sentence for sentence in found if sentence is not None]


def _threads_of_tvm(cpu: Cpu, environment: Mapping[str, str]) -> str | None:
    """Check the size of TVM's own thread pool; libraries of tvm-ios set theirs by the schedule."""
    advice = (
        f"libraries of tvm-ios set their own number, for others set TVM_NUM_THREADS={cpu.usable}"
    )
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        if name in environment:
            value = environment[name]
            if not value.isdigit():
                return f"{name}={value} is not a number of threads, but TVM reads it; unset it."
            if int(value) < cpu.usable:
                return f"{name}={value} leaves TVM {value} of {cpu.usable} cores: {advice}."
            return None
    if "86" in cpu.architecture and cpu.usable > 1:
        own = max(cpu.cores // 2, 1)
        if own < cpu.usable:
            return (
                f"By itself TVM uses {own} of {cpu.cores} cores, as it takes half of them for "
                f"hyper-threads: {advice}."
            )
    return None


def _affinity(cpu: Cpu) -> str | None:
    if cpu.usable == cpu.cores:
        return None
    return (
        f"This process may run on {cpu.usable} of {cpu.cores} cores (taskset, numactl or a "
        f"container): schedules are made for {_count(cpu.usable, 'thread')} unless "
        "--threads says otherwise."
    )


def _quota(cpu: Cpu) -> str | None:
    if cpu.quota is None or cpu.quota >= cpu.usable:
        return None
    threads = _count(threads_within(cpu.quota, cpu.usable), "thread")
    return (
        f"The container grants the time of {cpu.quota:g} of {cpu.usable} cores: schedules are made "
        f"for {threads} unless --threads says otherwise."
    )


def _hyper_threads(cpu: Cpu) -> str | None:
    if cpu.physical is None or cpu.physical == cpu.usable:
        return None
    return (
        f"{cpu.usable} hyper-threads share {cpu.physical} cores and their vector units: "
        f"--threads {cpu.physical} is often as fast."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
