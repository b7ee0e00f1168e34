# SPDX-License-Identifier: Apache-2.0
"""The ways to make many requests of one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OURS, ONNX_RUNTIME, OPENVINO = "tvm_ios", "onnxruntime", "openvino"
PEERS = (ONNX_RUNTIME, OPENVINO)
TITLES = {OURS: "tvm_ios", ONNX_RUNTIME: "ONNX Runtime", OPENVINO: "OpenVINO"}

_QUEUED = 2  # callers for each core where calls wait for each other


@dataclass(frozen=True)
class Way:
    """A way to make requests of a system.

    Attributes
    ----------
    system : str
    threads : int
        Threads that compute one call; 0 where the system decides on threads and callers.
    callers : int
        Threads that call at the same time; 0 as above.
    batch : int
        Samples of a call.
    """

    system: str
    threads: int
    callers: int
    batch: int

    def __str__(self) -> str:
        if not self.callers:
            return f"throughput hint, batch {self.batch}"
        callers = "1 caller" if self.callers == 1 else f"{self.callers} callers"
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{callers}, {threads} a call, batch {self.batch}"


def ways_of(system: str, threads: int, batches: Sequence[int]) -> list[Way]:
    """Return the ways to use all cores of a machine.

    Parameters
    ----------
    system : str
    threads : int
        The number of cores.
    batches : sequence of int

    Returns
    -------
    list of Way
        All cores for one call, with one caller or with more callers than cores; single-threaded
        calls, one for each core; and for OpenVINO its throughput hint.
    """
    if system == OPENVINO:
        return [Way(system, 0, 0, batch) for batch in batches]
    together = {(threads, 1), (threads, _QUEUED * threads), (1, threads)}
    return [Way(system, *form, batch) for batch in batches for form in sorted(together)]
