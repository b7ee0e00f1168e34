# SPDX-License-Identifier: Apache-2.0
"""The memory of a session on a device: what it is filled with, and how many copies that takes."""

from __future__ import annotations

import numpy as np

from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.model import Driver
from tvm_ios.backend.cuda.measure.builder import CudaKernelBuilder
from tvm_ios.backend.cuda.measure.session_handles import CudaSessionHandles
from tvm_ios.measure.transport.session import LocalSession


def filled(num_bytes: int, pattern: np.ndarray) -> tuple[bytes, int]:
    """The content of a memory that was filled, and the copies that it took."""
    handles, driver = CudaSessionHandles(LocalSession(), CudaKernelBuilder(TARGET), 0), Driver()
    memory = handles.memory(num_bytes)
    with driver.journal() as journal:
        handles.fill(memory, pattern)
    return handles.read(memory, num_bytes), sum("copy" in line for line in journal)


def test_memory_is_filled_in_few_copies(emulated: Emulated) -> None:
    """A copy takes microseconds on a GPU: one for every pattern would be a second for an image."""
    pattern = np.arange(1, 65, dtype="uint8")
    for num_bytes, most in ((1 << 20, 16), (1 << 20 | 37, 17), (64, 1), (7, 1)):
        content, copies = emulated.call(filled, num_bytes, pattern)
        assert content == (pattern.tobytes() * (num_bytes // 64 + 1))[:num_bytes]
        assert 0 < copies <= most
