# SPDX-License-Identifier: Apache-2.0
"""Run a module as a program, as if torch were not installed.

``import tvm_ffi`` imports torch wherever it is installed. Here it is, for a peer; in a process of
ours it would take seconds and memory, and bring an OpenMP, none of which a deployment of ours has.

    python -m peer.without_torch MODULE [ARGUMENT...]
"""

from __future__ import annotations

import runpy
import sys

if __name__ == "__main__":
    sys.modules["torch"] = None  # type: ignore[assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
