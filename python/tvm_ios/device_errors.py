# SPDX-License-Identifier: Apache-2.0
"""Failures of a CUDA device as errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tvm_ios_runtime.cuda import DeviceFailure, explained

from .errors import DeviceError


@contextmanager
def device_errors(device_id: int) -> Iterator[None]:
    """Raise DeviceError where a device has too little memory, or fails, within a ``with``."""
    try:
        with explained(device_id):
            yield
    except DeviceFailure as error:
        raise DeviceError(str(error)) from error
