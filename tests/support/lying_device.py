# SPDX-License-Identifier: Apache-2.0
"""The process that stages are isolated in, which answers what cannot be, or not at all."""

from __future__ import annotations

import sys
import threading

import numpy as np
import tvm_ffi

import tvm_ios  # noqa: F401 - has the functions that are registered again
from tvm_ios.measure.transport import server


def _times(seconds: float, stages: bytes, repeat: int) -> np.ndarray:
    """The times of so many runs of stages, and of the work that the machine's speed shows in."""
    return np.full(2 + repeat * (2 + len(stages) // 4), seconds)


def _all(seconds: float):
    return lambda _, program, stages, calls, workers, repeat, limit: _times(
        seconds, stages, repeat
    ).tobytes()


LIES = {
    "nan": _all(float("nan")),
    "infinite": _all(float("inf")),
    "negative": _all(-1e-3),
    "zero": _all(0.0),
    "longer than its limit": _all(1e30),
    "too many": lambda *arguments: _all(1e-3)(*arguments) + bytes(8),
    "too few": lambda *_: b"",
    "half a number": lambda *arguments: _all(1e-3)(*arguments)[:-3],
    "a text": lambda *_: "1 ms",
    "nothing": lambda *_: None,
    "a number": lambda *_: 7,
    "silence": lambda *_: threading.Event().wait(),
}


def main() -> None:
    tvm_ffi.register_global_func("tvm_ios.runtime.TimeOnRunner", LIES[sys.argv[1]], override=True)
    server.main()


if __name__ == "__main__":
    main()
